// Whether a sanitizer looks on: then all takes ten times as long, and a test that tries each of
// many steps in each of many ways may try fewer (effort.hpp).
#pragma once

namespace ddprun::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace ddprun::tests
