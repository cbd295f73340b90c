#include "rendezvous/server/service_manager.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>

namespace ddprun::server {
namespace {

constexpr int first_inherited = 3;  // SD_LISTEN_FDS_START
constexpr std::uint64_t sockets_max = 64;

std::optional<std::uint64_t> number_in(const environment_map& environment, std::string_view name) {
  const std::string text = variable_or_empty(environment, name);
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

bool is_for(const environment_map& environment, std::string_view name, pid_t self) {
  return number_in(environment, name) == static_cast<std::uint64_t>(self);
}

std::string reason() {
  return std::strerror(errno);
}

}  // namespace

cli::parsed<std::vector<int>> inherited_sockets(const environment_map& environment, pid_t self) {
  std::vector<int> sockets;
  const std::string count_text = variable_or_empty(environment, "LISTEN_FDS");
  if (count_text.empty() || !is_for(environment, "LISTEN_PID", self)) return sockets;
  const auto count = number_in(environment, "LISTEN_FDS");
  if (!count || *count > sockets_max) {
    return cli::usage_error{"LISTEN_FDS=" + count_text +
                            ": no number of sockets from 0 to 64; unset it, or correct the unit"};
  }
  for (int descriptor = first_inherited; descriptor < first_inherited + static_cast<int>(*count);
       ++descriptor) {
    // systemd passes them without close-on-exec, but our children must not inherit them.
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      return cli::usage_error{"LISTEN_FDS=" + count_text + ": descriptor " +
                              std::to_string(descriptor) + " is not open: " + reason()};
    }
    sockets.push_back(descriptor);
  }
  return sockets;
}

duration watchdog_interval(const environment_map& environment, pid_t self) {
  const bool is_for_another = find_variable(environment, "WATCHDOG_PID") != nullptr &&
                              !is_for(environment, "WATCHDOG_PID", self);
  const auto microseconds = number_in(environment, "WATCHDOG_USEC");
  constexpr std::uint64_t year = 365ULL * 24 * 3600 * 1'000'000;
  if (is_for_another || !microseconds || *microseconds > year) return duration::zero();
  return std::chrono::microseconds(*microseconds);
}

service_manager::service_manager(net::executor where, const environment_map& environment,
                                 pid_t self)
    : address_(variable_or_empty(environment, "NOTIFY_SOCKET")),
      interval_(watchdog_interval(environment, self)),
      timer_(where) {}

std::string service_manager::ready(std::function<std::string()> status) {
  status_ = std::move(status);
  if (address_.empty()) return {};
  const std::string problem = say("READY=1\nSTATUS=" + status_(), 0);
  if (interval_ > duration::zero()) go_on();
  return problem;
}

// Notifies twice in each interval, as systemd advises. If the manager's queue is full, the message
// is skipped; the next one is soon enough.
void service_manager::go_on() {
  timer_.expires_after(interval_ / 2);
  timer_.async_wait([this](const error_code& error) {
    if (error) return;
    say("WATCHDOG=1\nSTATUS=" + status_(), MSG_DONTWAIT);
    go_on();
  });
}

void service_manager::stopping() {
  stop();
  if (!address_.empty()) say("STOPPING=1", 0);
}

// NOTIFY_SOCKET is a path, or "@" and an abstract name.
std::string service_manager::say(const std::string& words, int flags) const {
  const std::string failed = "cannot tell the service manager at NOTIFY_SOCKET=" + address_ + ": ";
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if ((address_[0] != '/' && address_[0] != '@') || address_.size() >= sizeof to.sun_path)
    return failed + "write a path, or @ and a name";
  std::copy(address_.begin(), address_.end(), to.sun_path);
  if (address_[0] == '@') to.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const unique_fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return failed + reason();
  const auto sent = ::sendto(socket.get(), words.data(), words.size(), flags | MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&to), size);
  return sent == static_cast<ssize_t>(words.size()) ? std::string() : failed + reason();
}

}  // namespace ddprun::server
