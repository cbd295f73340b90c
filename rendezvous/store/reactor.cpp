#include "rendezvous/store/reactor.hpp"

#include "rendezvous/store/system_calls.hpp"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>

namespace ddprun::store {
namespace {

// How many events are handled before the loop looks at posted tasks and deadlines again.
constexpr std::size_t events_max = 256;

constexpr std::size_t cache_line_bytes = 64;
// The part of a session that each request touches.
constexpr std::size_t watcher_bytes = 128;

// With thousands of watchers the next one is in no near cache, so it is fetched while the current
// one is called. The pointer may be null (removed) or the reactor's own (the wake-up): fetching
// either does no harm.
void prefetch(const void* who) {
  const auto address = reinterpret_cast<std::uintptr_t>(who);
  for (std::size_t offset = 0; offset < watcher_bytes; offset += cache_line_bytes)
    __builtin_prefetch(reinterpret_cast<const void*>(address + offset), 1);
}

unique_fd checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return unique_fd(fd);
}

}  // namespace

reactor::reactor()
    : poll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      ready_(events_max) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;  // distinguishes the wake-up from watchers
  checked(::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wake_.get(), &event), "epoll_ctl").release();
}

// Destroying a watcher may end others, which then look into `entries_` themselves.
reactor::~reactor() {
  for (std::size_t fd = 0; fd < entries_.size(); ++fd) {
    const auto ending = std::exchange(entries_[fd].who, nullptr);
  }
}

void reactor::post(std::function<void()> what) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(what));
  if (posted_.size() > 1) return;  // the loop is awake, or about to be
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void reactor::stop() {
  post([this] { stopping_ = true; });
}

void reactor::run() {
  stopping_ = false;
  telling_ = true;
  while (!stopping_) {
    const int count = system_calls::epoll_wait(poll_.get(), ready_.data(),
                                               static_cast<int>(ready_.size()), wait_limit());
    ready_count_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    tell_ready();
    if (!deadlines_.empty()) tell_deadlines();
    while (!removed_.empty()) {
      ending_.swap(removed_);
      ending_.clear();  // may remove more
    }
  }
  telling_ = false;
}

void reactor::tell_ready() {
  for (next_ = 0; next_ < ready_count_;) {
    const epoll_event now = ready_[next_++];
    if (next_ < ready_count_) prefetch(ready_[next_].data.ptr);
    if (now.data.ptr == this) {
      run_posted();
    } else if (now.data.ptr != nullptr) {  // null: it was removed meanwhile
      static_cast<watcher*>(now.data.ptr)->on_ready(now.events);
    }
  }
}

// In milliseconds, rounded up: a wait that ends too early would only be repeated.
int reactor::wait_limit() const {
  if (deadlines_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadlines_.begin()->first -
                                                                 std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
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
  // Swap the list out, because tasks may post more, and other threads must not wait for them.
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(posted_);
  }
  for (auto& each : ready) {
    try {
      std::exchange(each, nullptr)();
    } catch (const std::bad_alloc&) {
      // The task is dropped; the connections continue.
    }
  }
}

error_code reactor::add(int fd, std::uint32_t events, std::shared_ptr<watcher> who) {
  const auto index = static_cast<std::size_t>(fd);
  if (index >= entries_.size()) entries_.resize(index + 1);
  // Reserve room now, so that `remove` needs no memory: it is what happens when there is none.
  removed_.reserve(entries_.size());
  ending_.reserve(entries_.size());
  epoll_event event{};
  event.events = events;
  event.data.ptr = who.get();
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return last_system_error();
  entries_[index].who = std::move(who);
  return {};
}

void reactor::change(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = entries_[static_cast<std::size_t>(fd)].who.get();
  ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void reactor::remove(int fd) {
  clear_deadline(fd);
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  auto gone = std::move(entries_[static_cast<std::size_t>(fd)].who);
  // An event of this watcher that was found in the same epoll_wait must not reach it any more.
  for (std::size_t index = next_; index < ready_count_; ++index) {
    if (ready_[index].data.ptr == gone.get()) ready_[index].data.ptr = nullptr;
  }
  // It may be running right now, so it is destroyed after the loop's turn.
  if (telling_) removed_.push_back(std::move(gone));
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
