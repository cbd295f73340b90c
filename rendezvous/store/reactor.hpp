// A reactor is the loop of the store's connections: one epoll, level triggered, nothing else.
//
// The store answers a hundred thousand small requests a second, and at that rate the loop is what
// costs. Asio's reads once more after each request, to find nothing (it is edge triggered), and
// allocates; this one does for a request what an echo server does: epoll_wait, recv, send. All else
// in ddprun runs on Asio; a connection is accepted and told apart there and then handed over.
//
//   reactor loop;
//   std::thread thread([&] { loop.run(); });
//   loop.post([&] { loop.add(fd, EPOLLIN, watcher); });   // from any thread
//   loop.stop(); thread.join();
//
// Thread rule: `post` and `stop` from any thread; everything else, and all that is posted, on the
// thread of run(), or on any one thread while nobody runs it. Ownership: of its watchers; they and
// what was posted and never ran end with it. Errors: what the system refuses at the start (epoll,
// eventfd) throws std::system_error; `add` returns it.
#pragma once

#include "rendezvous/core/types.hpp"
#include "rendezvous/error.hpp"
#include "rendezvous/net/descriptors.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::store {

// Who is told that its descriptor is ready (EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR), for as long as
// it is, or that its deadline has passed.
class watcher {
 public:
  virtual ~watcher() = default;
  virtual void on_ready(std::uint32_t events) = 0;
  virtual void on_deadline() = 0;
};

class reactor {
 public:
  reactor();
  ~reactor();
  reactor(const reactor&) = delete;
  reactor& operator=(const reactor&) = delete;

  void post(std::function<void()> what);
  void stop();

  // Returns once stopped; what was posted before the stop has run.
  void run();

  // `who` is kept until `remove`, which must come before its descriptor is closed.
  error_code add(int fd, std::uint32_t events, std::shared_ptr<watcher> who);
  void change(int fd, std::uint32_t events);
  void remove(int fd);

  // At most one deadline for each descriptor; it is gone once told.
  void set_deadline(int fd, duration from_now);
  void clear_deadline(int fd);

 private:
  struct entry {
    std::shared_ptr<watcher> who;
    std::uint32_t generation = 0;  // tells a descriptor from an earlier one of the same number
    std::optional<time_point> deadline;
  };

  int wait_limit() const;
  void prefetch(std::uint64_t tag) const;
  void tell(std::uint64_t tag, std::uint32_t events);
  void tell_deadlines();
  void run_posted();

  unique_fd poll_;
  unique_fd wake_;
  std::vector<entry> entries_;  // by descriptor
  std::set<std::pair<time_point, int>> deadlines_;
  bool stopping_ = false;
  std::mutex mutex_;  // of what follows
  std::vector<std::function<void()>> posted_;
};

}  // namespace ddprun::store
