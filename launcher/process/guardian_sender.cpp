#include "launcher/process/guardian_sender.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

namespace ddprun::launcher {
namespace {

using time_point = std::chrono::steady_clock::time_point;

bool wait_for(int fd, short what, time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd entry{fd, what, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// On failure returns none, and the error; 0 if the peer did not cause it.
unique_fd connect_to(const std::string& address, std::uint16_t port, time_point deadline,
                     int& error) {
  error = 0;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (::getaddrinfo(address.c_str(), service.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  unique_fd fd(::socket(found->ai_family, found->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return {};
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    error = errno;
    if (error != EINPROGRESS || !wait_for(fd.get(), POLLOUT, deadline)) return {};
    socklen_t size = sizeof(error);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return {};
  }
  return fd;
}

}  // namespace

send_outcome send_bytes(const std::string& address, std::uint16_t port, const std::string& bytes,
                        time_point deadline) {
  int error = 0;
  const unique_fd fd = connect_to(address, port, deadline, error);
  if (!fd) return error == ECONNREFUSED ? send_outcome::refused : send_outcome::failed;
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    if (!wait_for(fd.get(), POLLOUT, deadline)) return send_outcome::failed;
    const auto count = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return send_outcome::failed;
    if (count > 0) sent += static_cast<std::size_t>(count);
  }
  // Closing a socket with an unread answer would send a reset, which can discard our bytes at a
  // peer that has not read them yet. So wait for the peer to close.
  ::shutdown(fd.get(), SHUT_WR);
  char answer[512];
  while (wait_for(fd.get(), POLLIN, deadline)) {
    const auto count = ::recv(fd.get(), answer, sizeof(answer), 0);
    if (count == 0) return send_outcome::taken;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return send_outcome::failed;
  }
  return send_outcome::failed;
}

}  // namespace ddprun::launcher
