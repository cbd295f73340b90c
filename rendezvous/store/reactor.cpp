#include "rendezvous/store/reactor.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>

namespace ddprun::store {
namespace {

// Handled between two looks at what was posted and at the deadlines.
constexpr std::size_t events_max = 256;

constexpr std::size_t cache_line_bytes = 64;
constexpr std::size_t watcher_bytes = 320;  // a session and its count of references

std::uint64_t tag_of(int fd, std::uint32_t generation) {
  return std::uint64_t{generation} << 32 | static_cast<std::uint32_t>(fd);
}

unique_fd checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return unique_fd(fd);
}

}  // namespace

reactor::reactor()
    : poll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_of(wake_.get(), 0);
  checked(::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wake_.get(), &event), "epoll_ctl").release();
}

// A watcher's end may end others, which look for themselves here.
reactor::~reactor() {
  for (std::size_t fd = 0; fd < entries_.size(); ++fd) {
    const auto ending = std::exchange(entries_[fd].who, nullptr);
  }
}

void reactor::post(std::function<void()> what) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(what));
  if (posted_.size() > 1) return;  // it is awake, or about to be
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void reactor::stop() {
  post([this] { stopping_ = true; });
}

void reactor::run() {
  std::array<epoll_event, events_max> events;
  stopping_ = false;
  while (!stopping_) {
    const int count =
        ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), wait_limit());
    for (int index = 0; index < count; ++index) {
      const epoll_event& event = events[static_cast<std::size_t>(index)];
      if (index + 1 < count) prefetch(events[static_cast<std::size_t>(index) + 1].data.u64);
      tell(event.data.u64, event.events);
    }
    if (!deadlines_.empty()) tell_deadlines();
  }
}

// Milliseconds, rounded up: a wait that ends too early would only be repeated.
int reactor::wait_limit() const {
  if (deadlines_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadlines_.begin()->first -
                                                                 std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

// Of thousands of watchers the next one is in no near cache; it is on its way while the one before
// it is told.
void reactor::prefetch(std::uint64_t tag) const {
  const auto fd = static_cast<std::size_t>(static_cast<std::uint32_t>(tag));
  if (fd >= entries_.size()) return;
  const void* const start = entries_[fd].who.get();
  if (start == nullptr) return;
  for (std::size_t offset = 0; offset < watcher_bytes; offset += cache_line_bytes)
    __builtin_prefetch(static_cast<const char*>(start) + offset, 1);
}

void reactor::tell(std::uint64_t tag, std::uint32_t events) {
  const auto fd = static_cast<std::size_t>(static_cast<std::uint32_t>(tag));
  if (static_cast<int>(fd) == wake_.get()) return run_posted();
  // An event before this one may have ended it, and even put another in its place.
  if (fd >= entries_.size() || entries_[fd].generation != tag >> 32) return;
  const std::shared_ptr<watcher> who = entries_[fd].who;
  if (who) who->on_ready(events);
}

void reactor::tell_deadlines() {
  const time_point now = std::chrono::steady_clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const int fd = deadlines_.begin()->second;
    clear_deadline(fd);
    const std::shared_ptr<watcher> who = entries_[static_cast<std::size_t>(fd)].who;
    if (who) who->on_deadline();
  }
}

void reactor::run_posted() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof count);
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(posted_);
  }
  for (auto& each : ready)
    std::exchange(each, nullptr)();
}

error_code reactor::add(int fd, std::uint32_t events, std::shared_ptr<watcher> who) {
  const auto index = static_cast<std::size_t>(fd);
  if (index >= entries_.size()) entries_.resize(index + 1);
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(fd, ++entries_[index].generation);
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return last_system_error();
  }
  entries_[index].who = std::move(who);
  return {};
}

void reactor::change(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(fd, entries_[static_cast<std::size_t>(fd)].generation);
  ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void reactor::remove(int fd) {
  clear_deadline(fd);
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  entry& gone = entries_[static_cast<std::size_t>(fd)];
  ++gone.generation;
  const auto ending = std::move(gone.who);
}

void reactor::set_deadline(int fd, duration from_now) {
  clear_deadline(fd);
  const time_point when = std::chrono::steady_clock::now() + from_now;
  entries_[static_cast<std::size_t>(fd)].deadline = when;
  deadlines_.emplace(when, fd);
}

void reactor::clear_deadline(int fd) {
  auto& deadline = entries_[static_cast<std::size_t>(fd)].deadline;
  if (deadline) deadlines_.erase({*std::exchange(deadline, std::nullopt), fd});
}

}  // namespace ddprun::store
