#include "worker/snapshot/checksum.hpp"

// xxHash is compiled into this file, so that users of the library do not need libxxhash.
#define XXH_INLINE_ALL
#include <cinttypes>
#include <cstdio>
#include <xxhash.h>

namespace ddprun::worker {

struct checksum::state {
  XXH3_state_t of_library;
};

checksum::checksum() : state_(std::make_unique<state>()) {
  XXH3_64bits_reset(&state_->of_library);
}
checksum::~checksum() = default;
checksum::checksum(checksum&&) noexcept = default;
checksum& checksum::operator=(checksum&&) noexcept = default;

void checksum::add(std::string_view bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_->of_library, bytes.data(), bytes.size());
}

std::uint64_t checksum::value() const {
  return XXH3_64bits_digest(&state_->of_library);
}

std::uint64_t checksum_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(std::uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, value);
  return digits;
}

}  // namespace ddprun::worker
