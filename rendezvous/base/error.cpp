#include "rendezvous/base/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace ddprun {
namespace {

class category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "ddprun"; }

  std::string message(int value) const override {
    switch (static_cast<errc>(value)) {
      case errc::success:
        return "success";
      case errc::message_too_long:
        return "message longer than the limit";
      case errc::malformed_message:
        return "malformed message";
      case errc::unknown_message:
        return "message of an unknown kind";
      case errc::wrong_protocol:
        return "the peer speaks another protocol";
      case errc::version_mismatch:
        return "the peer's protocol version is not supported";
      case errc::connection_closed:
        return "connection closed by the peer";
      case errc::connection_silent:
        return "connection silent for too long";
      case errc::peer_does_not_read:
        return "the peer does not read";
      case errc::timed_out:
        return "timed out";
      case errc::refused:
        return "refused by the peer";
      case errc::invalid_argument:
        return "invalid argument";
      case errc::not_found:
        return "not found";
      case errc::damaged:
        return "damaged data";
      case errc::limit_reached:
        return "limit reached";
    }
    return "unknown error";
  }
};

}  // namespace

const boost::system::error_category& ddprun_category() noexcept {
  static const category instance;
  return instance;
}

boost::system::error_code make_error_code(errc value) noexcept {
  return {static_cast<int>(value), ddprun_category()};
}

error_code system_error(int number) noexcept {
  return {number, boost::system::system_category()};
}

error_code last_system_error() noexcept {
  return system_error(errno);
}

bool is_system_error(const error_code& error, int number) noexcept {
  return error == system_error(number);
}

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "ddprun: internal error, please report it: %s (%s:%d)\n", expression, file,
               line);
  std::abort();
}

}  // namespace ddprun
