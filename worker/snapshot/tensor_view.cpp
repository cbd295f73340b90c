#include "worker/snapshot/tensor_view.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace ddprun::worker {
namespace {

static_assert(std::endian::native == std::endian::little);

struct type_row {
  element_type type;
  std::string_view text;
  std::size_t bytes;
};

constexpr std::array<type_row, 16> types{{
    {element_type::boolean, "BOOL", 1},
    {element_type::u8, "U8", 1},
    {element_type::i8, "I8", 1},
    {element_type::f8_e5m2, "F8_E5M2", 1},
    {element_type::f8_e4m3, "F8_E4M3", 1},
    {element_type::i16, "I16", 2},
    {element_type::u16, "U16", 2},
    {element_type::f16, "F16", 2},
    {element_type::bf16, "BF16", 2},
    {element_type::i32, "I32", 4},
    {element_type::u32, "U32", 4},
    {element_type::f32, "F32", 4},
    {element_type::f64, "F64", 8},
    {element_type::i64, "I64", 8},
    {element_type::u64, "U64", 8},
    {element_type::c64, "C64", 8},
}};

const type_row& row_of(element_type type) {
  return types.at(static_cast<std::size_t>(type));
}

}  // namespace

std::size_t bytes_of(element_type type) {
  return row_of(type).bytes;
}

std::string_view to_text(element_type type) {
  return row_of(type).text;
}

std::optional<element_type> parse_element_type(std::string_view text) {
  const auto* const found =
      std::find_if(types.begin(), types.end(), [&](const auto& row) { return row.text == text; });
  return found == types.end() ? std::nullopt : std::optional(found->type);
}

std::optional<std::uint64_t> bytes_of(const tensor_description& tensor) {
  std::uint64_t bytes = bytes_of(tensor.type);
  for (const std::uint64_t length : tensor.shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string to_text(const tensor_description& tensor) {
  std::string text = tensor.name + " " + std::string(to_text(tensor.type)) + " [";
  for (std::size_t at = 0; at < tensor.shape.size(); ++at)
    text += (at == 0 ? "" : ", ") + std::to_string(tensor.shape[at]);
  return text + "]";
}

}  // namespace ddprun::worker
