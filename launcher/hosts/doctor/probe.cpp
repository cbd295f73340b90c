#include "launcher/hosts/doctor/probe.hpp"

#include "launcher/hosts/doctor/probe_protocol.hpp"
#include "rendezvous/net/resolve.hpp"
#include "worker/blocking_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace ddprun::launcher::doctor {
namespace {

using std::chrono::steady_clock;
using worker::blocking_stream;
using worker::deadline;

constexpr std::size_t bulk_bytes = 256 * 1024;  // a few hundred packets
constexpr int clock_questions = 8;

std::int64_t micros(duration value) {
  return to_micros(value);
}

// Returns 0 or errno; net/dialer only gives a text.
int connect_by(int descriptor, const net::tcp::endpoint& to, const deadline& until) {
  if (::connect(descriptor, to.data(), static_cast<socklen_t>(to.size())) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  while (true) {
    pollfd entry{descriptor, POLLOUT, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until.left()).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(left));
    if (ready == 0) return ETIMEDOUT;
    if (ready < 0 && errno != EINTR) return errno;
    if (ready < 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }
}

path_answer meaning_of(int error) {
  if (error == ECONNREFUSED) return path_answer::refused;
  if (error == EHOSTUNREACH || error == ENETUNREACH) return path_answer::no_route;
  if (error == ETIMEDOUT) return path_answer::no_answer;
  return path_answer::failed;
}

std::optional<blocking_stream> dial(const probe_target& target, duration limit, path_seen& path) {
  path.address = target.address;
  path.port = target.port;
  const auto address = net::numeric_address(target.address);
  if (!address) {
    path.what = path_answer::failed;
    path.words = "no address";
    return {};
  }
  const net::tcp::endpoint to(*address, target.port);
  unique_fd socket(
      ::socket(to.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  const int error = socket ? connect_by(socket.get(), to, limit) : errno;
  if (error == 0) return blocking_stream(socket.release());
  path.what = meaning_of(error);
  path.words = std::strerror(error);
  return {};
}

// Reads so many bytes; empty: they did not arrive.
std::string read_bytes(blocking_stream& stream, std::size_t count, const deadline& until) {
  std::string bytes;
  while (bytes.size() < count) {
    if (stream.receive(bytes, count - bytes.size(), until)) return {};
  }
  return bytes;
}

bool greet(blocking_stream& stream, const probe_target& target, duration limit, path_seen& path) {
  const deadline until = limit;
  std::string token;
  error_code error = stream.send(probe_greeting, until);
  while (!error && token.size() < token_bytes)
    error = stream.receive(token, token_bytes - token.size(), until);
  if (error == errc::timed_out && token.empty()) {
    path.what = path_answer::mute;
    return false;
  }
  const bool is_token = token.size() == token_bytes &&
                        token.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (token == target.token) return true;
  path.what = is_token ? path_answer::other_node : path_answer::stranger;
  path.words = is_token ? token : error ? error.message() : "";
  return false;
}

bool ask_clock(blocking_stream& stream, duration limit, probe_result& result) {
  const time_point before = steady_clock::now();
  const std::int64_t asked = wall_clock();
  if (stream.send("t", limit)) return false;
  const std::string bytes = read_bytes(stream, 8, limit);
  if (bytes.empty()) return false;
  const std::int64_t round_trip = micros(steady_clock::now() - before);
  if (result.round_trip && *result.round_trip <= round_trip) return true;
  result.round_trip = round_trip;
  const auto theirs = static_cast<std::int64_t>(number_of_eight_bytes(bytes));
  result.clock_ahead = (theirs - asked) / 1000 - round_trip / 2;
  return true;
}

bool send_bulk(blocking_stream& stream, std::size_t bytes, const deadline& until) {
  static const std::string block(bulk_bytes, 'x');
  if (stream.send("b" + eight_bytes(bytes), until)) return false;
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t part = std::min(left, block.size());
    if (stream.send(std::string_view(block).substr(0, part), until)) return false;
    left -= part;
  }
  return !read_bytes(stream, 1, until).empty();
}

}  // namespace

probe_result probe(const probe_target& target, const probe_limits& limits) {
  probe_result result;
  auto stream = dial(target, limits.connect, result.path);
  if (!stream || !greet(*stream, target, limits.reply, result.path) || !target.is_main)
    return result;
  for (int each = 0; each < clock_questions; ++each) {
    if (ask_clock(*stream, limits.reply, result)) continue;
    result.path.what = path_answer::mute;
    return result;
  }
  if (!send_bulk(*stream, bulk_bytes, limits.bulk)) result.path.what = path_answer::stalled;
  return result;
}

std::optional<double> measure_speed(const probe_target& target, duration time,
                                    const probe_limits& limits) {
  path_seen path;
  auto stream = dial(target, limits.connect, path);
  if (!stream || !greet(*stream, target, limits.reply, path)) return {};
  const deadline until = time;
  std::optional<double> best;
  // Each transfer is twice as long as the one before, so that connection start and the final wait
  // count little in the last ones.
  for (std::size_t bytes = 1024 * 1024; !until.passed();
       bytes = std::min(bytes * 2, std::size_t{1} << 30)) {
    const time_point begin = steady_clock::now();
    if (!send_bulk(*stream, bytes, time + limits.bulk)) break;
    const std::chrono::duration<double> took = steady_clock::now() - begin;
    const double speed = static_cast<double>(bytes) / (1024 * 1024) / std::max(took.count(), 1e-9);
    best = std::max(best.value_or(0), speed);
    if (took * 2 > until.left()) break;
  }
  return best;
}

}  // namespace ddprun::launcher::doctor
