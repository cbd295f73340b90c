// 64-bit XXH3 (xxHash 0.8, github.com/Cyan4973/xxHash), to detect damaged snapshots. It protects
// against accidents, not against attackers.
//
// Thread rule: one thread per object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::worker {

class checksum {
 public:
  checksum();
  ~checksum();
  checksum(checksum&&) noexcept;
  checksum& operator=(checksum&&) noexcept;

  void add(std::string_view bytes);
  // The checksum of all that was added so far.
  std::uint64_t value() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

std::uint64_t checksum_of(std::string_view bytes);

// 16 digits, as `xxhsum -H3` prints them after "XXH3_", and as Python's xxhash.xxh3_64_hexdigest
// does.
std::string checksum_text(std::uint64_t value);

}  // namespace ddprun::worker
