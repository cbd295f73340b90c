#include "worker/blocking_stream.hpp"

#include "rendezvous/net/dialer.hpp"

#include <boost/asio/io_context.hpp>

#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>

namespace ddprun::worker {
namespace {

error_code last_error() {
  if (errno == EPIPE || errno == ECONNRESET) return errc::connection_closed;
  return last_system_error();
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

// Waits until the socket is ready or in error, or the deadline has passed.
error_code await(int descriptor, short events, const deadline& until) {
  while (true) {
    const duration left = until.left();
    if (left == duration::zero()) return errc::timed_out;
    // Round up: otherwise the last millisecond would be a busy loop.
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long>(milliseconds, 3'600'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return last_error();
  }
}

}  // namespace

result<blocking_stream> blocking_stream::dial(const std::string& host, std::uint16_t port,
                                              duration delay, const deadline& until,
                                              std::string& problem, int segment_bytes_max) {
  // The context is declared first because the sockets of the answer and the dialer belong to it.
  boost::asio::io_context context(1);
  std::optional<net::dial_result> answer;
  net::dialer dialer(context.get_executor());
  dialer.limit_segments(segment_bytes_max);
  const duration limit = std::max(duration::zero(), until.left() - delay);
  dialer.start(host, port, delay, limit,
               [&](net::dial_result result) { answer = std::move(result); });
  while (!answer && context.run_one() != 0) {
  }
  if (!answer || !answer->socket) {
    problem = answer ? answer->text : "the dialer stopped";
    return errc::timed_out;
  }
  error_code failed;
  const int descriptor = answer->socket->release(failed);
  if (failed) {
    problem = failed.message();
    return failed;
  }
  return blocking_stream(descriptor);
}

blocking_stream::blocking_stream(int descriptor) : descriptor_(descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  set_nonblocking(descriptor);
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

error_code blocking_stream::send(std::string_view bytes, const deadline& until) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (would_block()) {
      if (const error_code error = await(descriptor_.get(), POLLOUT, until)) return error;
    } else if (errno != EINTR) {
      return last_error();
    }
  }
  return {};
}

error_code blocking_stream::receive(std::string& received, std::size_t bytes_max,
                                    const deadline& until) {
  const std::size_t before = received.size();
  received.resize(before + bytes_max);
  error_code error;
  std::size_t arrived = 0;
  while (!error && arrived == 0) {
    const ssize_t got = ::recv(descriptor_.get(), received.data() + before, bytes_max, 0);
    if (got > 0) {
      arrived = static_cast<std::size_t>(got);
    } else if (got == 0) {
      error = errc::connection_closed;
    } else if (would_block()) {
      error = await(descriptor_.get(), POLLIN, until);
    } else if (errno != EINTR) {
      error = last_error();
    }
  }
  received.resize(before + arrived);
  return error;
}

}  // namespace ddprun::worker
