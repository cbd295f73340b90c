#include "worker/round_link.hpp"

#include "rendezvous/net/packet.hpp"
#include "rendezvous/net/threads.hpp"
#include "worker/connections_to.hpp"
#include "worker/round_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace ddprun::worker {
namespace {

// The interval at which waits are ended again, since the program may begin new ones until it has
// left.
constexpr std::chrono::milliseconds pause{50};
constexpr std::chrono::seconds usual_patience{15};
constexpr std::size_t changes_bytes_max = std::size_t{4} << 20;  // more than exec accepts

std::chrono::milliseconds patience_of(const variable_lookup& lookup) {
  const auto told = lookup("DDPRUN_SURVIVORS_PATIENCE");
  double seconds = 0;
  if (told) {
    const char* const end = told->data() + told->size();
    const auto [rest, error] = std::from_chars(told->data(), end, seconds);
    constexpr double seconds_max = 24 * 3600;
    if (error == std::errc() && rest == end && seconds >= 0 && seconds <= seconds_max)
      return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  }
  return usual_patience;
}

unique_fd connect_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) return {};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return {};
  return socket;
}

// Waits for a packet. An empty text means that the agent has closed the connection.
net::packet next_packet(int socket) {
  pollfd ready{socket, POLLIN, 0};
  while (true) {
    if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return {};
    auto heard = net::receive_packet(socket);
    if (heard) return std::move(*heard);
    if (heard.error() != boost::system::errc::operation_would_block) return {};
  }
}

// Parses a file of entries that each end with a zero byte.
std::optional<environment_changes> read_changes(const unique_fd& file) {
  std::string text;
  char part[4096];
  while (true) {
    const ssize_t size = ::pread(file.get(), part, sizeof part, static_cast<off_t>(text.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 || text.size() > changes_bytes_max) return std::nullopt;
    if (size == 0) break;
    text.append(part, static_cast<std::size_t>(size));
  }
  environment_changes changes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    changes.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return changes;
}

}  // namespace

std::unique_ptr<round_link> round_link::open(const variable_lookup& lookup) {
  const auto name = lookup("DDPRUN_SURVIVORS");
  if (!name || name->empty()) return nullptr;
  auto socket = connect_to(*name);
  if (!socket || net::send_packet(socket.get(), "stay")) return nullptr;
  if (next_packet(socket.get()).text != "ok") return nullptr;
  return std::unique_ptr<round_link>(new round_link(std::move(socket), lookup));
}

round_link::round_link(unique_fd socket, const variable_lookup& lookup)
    : socket_(std::move(socket)), patience_(patience_of(lookup)), process_(::getpid()) {
  listen(lookup);
}

round_link::~round_link() {
  if (::getpid() != process_) {
    thread_.detach();  // a forked child does not have this thread
    return;
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  stop_listening();
}

void round_link::listen(const variable_lookup& lookup) {
  is_over_ = is_to_leave_ = has_left_ = false;
  set_round_is_over(false);
  const auto host = lookup("MASTER_ADDR"), port = lookup("MASTER_PORT");
  const auto error = net::start_thread(
      thread_, "ddprun-round",
      [this, host = host.value_or(""), port = port.value_or("")] { hear(host, port); });
  // Without the thread this worker cannot survive. Hang up, so that the agent restarts it normally.
  if (error) ::shutdown(socket_.get(), SHUT_RDWR);
}

void round_link::hear(const std::string& host, const std::string& port) {
  const auto word = next_packet(socket_.get()).text;
  std::unique_lock lock(mutex_);
  is_over_ = true;
  is_to_leave_ = word == "leave";
  set_round_is_over(is_to_leave_);
  changed_.notify_all();
  if (!is_to_leave_) return;
  lock.unlock();
  const connections_to store(host, port);
  lock.lock();
  while (!has_left_) {
    lock.unlock();
    if (can_leave_round()) {
      for (const auto& part : round_parts())
        part->end_waits();
      if (!is_round_store_in_use()) store.end();
    }
    lock.lock();
    changed_.wait_for(lock, pause, [this] { return has_left_; });
  }
}

void round_link::stop_listening() {
  {
    const std::lock_guard lock(mutex_);
    has_left_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool round_link::may_leave(std::chrono::milliseconds limit) {
  if (::getpid() != process_ || !can_leave_round()) return false;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return is_over_; });
  return is_to_leave_;
}

std::optional<environment_changes> round_link::next_round() {
  stop_listening();
  for (const auto& part : round_parts())
    part->left();
  if (net::send_packet(socket_.get(), "left")) return std::nullopt;
  const auto told = next_packet(socket_.get());
  if (told.text != "round" || told.descriptors.size() != 1) return std::nullopt;
  return read_changes(told.descriptors.front());
}

void round_link::begin(const variable_lookup& lookup) {
  listen(lookup);
  // Ignore a failure to send: the agent is then gone, and this process is stopped with it.
  [[maybe_unused]] const auto error = net::send_packet(socket_.get(), "begun");
}

}  // namespace ddprun::worker
