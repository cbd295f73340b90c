// The errors that cross ddprun's own interfaces, and the result type that carries them.
//
// An operation that can fail for a reason outside the program returns `ddprun::result<T>` or an
// `error_code`. System errors keep the system category; errors of ddprun's own are an `errc`. The
// code that knows the detail logs it once; callers only pass on the code.
//
// Thread rule: all functions here may be called from any thread.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>

#include <string>

namespace ddprun {

enum class errc {
  success = 0,
  message_too_long,    // a line, key, value or count exceeds its named limit
  malformed_message,   // bytes that no peer of this protocol sends
  unknown_message,     // well formed, but of a kind that this version does not know
  wrong_protocol,      // another protocol on this port
  version_mismatch,    // a protocol version that this one does not support
  connection_closed,   // the peer closed the connection in order
  connection_silent,   // nothing was received for longer than the limit
  peer_does_not_read,  // the peer's queue stayed full for longer than the limit
  timed_out,           // a deadline of the caller passed
  refused,             // the peer understood and refused
  invalid_argument,    // a value given by the user
  not_found,           // a file, key or name that does not exist
  damaged,             // data that fails its checksum or is cut short
  limit_reached,       // a limit of memory, descriptors or count
};

const boost::system::error_category& ddprun_category() noexcept;
boost::system::error_code make_error_code(errc value) noexcept;

using error_code = boost::system::error_code;

template <typename T>
using result = boost::system::result<T>;

// errno's numbers as errors: a given one, and that of the last system call.
error_code system_error(int number) noexcept;
error_code last_system_error() noexcept;
bool is_system_error(const error_code& error, int number) noexcept;

// Ends the process with one line that names the broken rule, in release builds too. Only for bugs
// of this program: a peer's bytes or a user's input never end here.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace ddprun

template <>
struct boost::system::is_error_code_enum<ddprun::errc> : std::true_type {};

#define DDPRUN_ASSERT(expression) \
  ((expression) ? void(0) : ::ddprun::assertion_failed(#expression, __FILE__, __LINE__))
