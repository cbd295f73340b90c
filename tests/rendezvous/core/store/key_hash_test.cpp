#include "rendezvous/core/store/key_hash.hpp"

#include "tests/support/catch.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <set>
#include <string>

using ddprun::core::hash_seed;
using ddprun::core::key_hash;
using ddprun::core::sip_hash;

namespace {

// The bytes 0, 1, 2 and so on, which the authors' tests use as key and text.
constexpr hash_seed published_seed{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::string counting(std::size_t size) {
  std::string text;
  for (std::size_t index = 0; index < size; ++index)
    text.push_back(static_cast<char>(index));
  return text;
}

// A key of 16 bytes. libstdc++'s std::hash (MurmurHash2 with a public seed) gives the same value to
// all keys made here.
std::string colliding_key(std::uint64_t number) {
  constexpr std::uint64_t factor = 0xc6a4a7935bd1e995;
  std::uint64_t inverse = factor;
  for (int step = 0; step < 6; ++step)
    inverse *= 2 - factor * inverse;
  const auto fold = [](std::uint64_t value) { return value ^ (value >> 47); };
  std::uint64_t state = 0xc70f6907 ^ (16 * factor);
  state = (state ^ fold(number * factor) * factor) * factor;
  const std::uint64_t second = fold((state ^ 0x1234567) * inverse) * inverse;
  std::string key(16, '\0');
  std::memcpy(key.data(), &number, 8);
  std::memcpy(key.data() + 8, &second, 8);
  return key;
}

}  // namespace

TEST_CASE("the hash has the values that its authors published") {
  // SipHash-2-4 of the first ten texts, each a byte longer than the one before.
  const std::array<std::uint64_t, 10> published{
      0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
      0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
      0x93f5f5799a932462, 0x9e0082df0ba9e4b0};
  for (std::size_t size = 0; size < published.size(); ++size) {
    CHECK(sip_hash<2, 4>(counting(size), published_seed) == published[size]);
  }
  CHECK(sip_hash(counting(0), published_seed) == 0xabac0158050fc4dc);  // SipHash-1-3
}

TEST_CASE("keys made to collide do not, and none can be made without the seed") {
  const key_hash one{{1, 2}};
  const key_hash other{{1, 3}};
  std::set<std::size_t> known;
  std::set<std::size_t> values;
  std::size_t same = 0;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const std::string key = colliding_key(number);
    known.insert(std::hash<std::string_view>{}(key));
    values.insert(one(key));
    if (one(key) == other(key)) ++same;
  }
  CHECK(known.size() == 1);
  CHECK(values.size() == 1000);
  CHECK(same == 0);
}
