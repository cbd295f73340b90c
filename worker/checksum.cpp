#include "worker/checksum.hpp"

#include <array>
#include <cstddef>

namespace ddprun::worker {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41, bits reversed
constexpr std::size_t slices = 8;

using table = std::array<std::array<std::uint32_t, 256>, slices>;

// tables[k][b] carries byte b past k further bytes, so that eight bytes cost eight look-ups with
// no dependence between them ("slicing by 8").
constexpr table make_tables() {
  table tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    }
    tables[0][byte] = value;
  }
  for (std::size_t slice = 1; slice < slices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t value = tables[slice - 1][byte];
      tables[slice][byte] = (value >> 8) ^ tables[0][value & 0xff];
    }
  }
  return tables;
}

constexpr table tables = make_tables();

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  std::uint32_t value = ~before;
  while (left >= slices) {
    const std::uint32_t low = value ^ (std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8 |
                                       std::uint32_t{at[2]} << 16 | std::uint32_t{at[3]} << 24);
    value = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^
            tables[4][low >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
            tables[0][at[7]];
    at += slices;
    left -= slices;
  }
  for (; left > 0; --left, ++at) {
    value = (value >> 8) ^ tables[0][(value ^ *at) & 0xff];
  }
  return ~value;
}

}  // namespace ddprun::worker
