// XXH3 with 64 bits (xxHash 0.8, github.com/Cyan4973/xxHash), which tells a damaged snapshot from a
// whole one. It finds accidents, not attackers.
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
  // Of all that was added so far.
  std::uint64_t value() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

std::uint64_t checksum_of(std::string_view bytes);

// 16 digits, as `xxhsum -H3` prints it behind "XXH3_"; Python: xxhash.xxh3_64_hexdigest.
std::string checksum_text(std::uint64_t value);

}  // namespace ddprun::worker
