// SipHash-1-3 (Aumasson and Bernstein) for the keys of a hash table, under a secret seed.
//
// Keys come from the network. If anybody can compute the hash, it is easy to make keys that all
// fall into one bucket: 32,000 of them, less than a megabyte of requests, kept a store with
// std::hash busy for a minute. Without the seed that is not possible.
//
// It is not used as a cryptographic hash: its values are never shown to anybody.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ddprun::core {

// Random and secret; all zero is for tests.
struct hash_seed {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

class sip_state {
 public:
  explicit sip_state(hash_seed seed)
      : a_(seed.first ^ 0x736f6d6570736575),
        b_(seed.second ^ 0x646f72616e646f6d),
        c_(seed.first ^ 0x6c7967656e657261),
        d_(seed.second ^ 0x7465646279746573) {}

  template <int rounds>
  void mix(std::uint64_t word) {
    d_ ^= word;
    turn<rounds>();
    a_ ^= word;
  }
  template <int rounds>
  std::uint64_t finish() {
    c_ ^= 0xff;
    turn<rounds>();
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  template <int rounds>
  void turn() {
    for (int round = 0; round < rounds; ++round) {
      a_ += b_;
      b_ = std::rotl(b_, 13) ^ a_;
      a_ = std::rotl(a_, 32);
      c_ += d_;
      d_ = std::rotl(d_, 16) ^ c_;
      a_ += d_;
      d_ = std::rotl(d_, 21) ^ a_;
      c_ += b_;
      b_ = std::rotl(b_, 17) ^ c_;
      c_ = std::rotl(c_, 32);
    }
  }

  std::uint64_t a_, b_, c_, d_;
};

// The number of rounds for each word and at the end: (1, 3) is for tables, (2, 4) has published
// test values.
template <int each = 1, int end = 3>
std::uint64_t sip_hash(std::string_view text, hash_seed seed) {
  sip_state state(seed);
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56;
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= sizeof last; left -= sizeof last, at += sizeof last) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    state.mix<each>(word);
  }
  std::uint64_t rest = 0;
  if (left != 0) std::memcpy(&rest, at, left);
  state.mix<each>(last | rest);
  return state.finish<end>();
}

// Not noexcept, because libstdc++ would then compute it again at every step along a chain.
struct key_hash {
  using is_transparent = void;
  hash_seed seed;
  std::size_t operator()(std::string_view key) const { return sip_hash(key, seed); }
};

}  // namespace ddprun::core
