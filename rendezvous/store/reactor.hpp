// A reactor is the loop of the store's connections: one epoll, nothing else.
//
// The store answers a hundred thousand small requests a second, and at that rate the loop is what
// costs. Asio's reads once more after each request, to find nothing, and allocates; this one does
// for a request what an echo server does: epoll_wait, recv, send. All else in ddprun runs on Asio;
// a connection is accepted and told apart there and then handed over.
//
//   reactor loop;
//   std::thread thread([&] { loop.run(); });
//   loop.post([&] { loop.add(fd, EPOLLIN, watcher); });   // from any thread
//   loop.stop(); thread.join();
//
// Thread rule: `post` and `stop` from any thread; everything else, and all that is posted, on the
// thread of run(), or on any one thread while nobody runs it. Ownership: of its watchers; they and
// what was posted and never ran end with it. Errors: what the system refuses at the start (epoll,
// eventfd) throws std::system_error; `add` returns it. What was posted and finds no memory is left
// undone.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/core/messages/types.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sys/epoll.h>
#include <utility>
#include <vector>

namespace ddprun::store {

// A watcher is told that its descriptor is ready, as epoll says it, or that its deadline has
// passed. It may remove itself, and others, there and then. It does not throw.
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

  // `events` are epoll's: told for as long as it is ready, or, with EPOLLET, once for each time
  // that more has come. `who` is kept until `remove`, which must come before its descriptor is
  // closed, and is told nothing after it.
  error_code add(int fd, std::uint32_t events, std::shared_ptr<watcher> who);
  // With EPOLLET it is told anew if it is ready now.
  void change(int fd, std::uint32_t events);
  void remove(int fd);

  // At most one deadline for each descriptor; it is gone once told.
  void set_deadline(int fd, duration from_now);
  void clear_deadline(int fd);

 private:
  struct entry {
    std::shared_ptr<watcher> who;
    std::optional<time_point> deadline;
  };

  int wait_limit() const;
  void tell_ready();
  void tell_deadlines();
  void run_posted();

  unique_fd poll_;
  unique_fd wake_;
  std::vector<entry> entries_;  // by descriptor
  // What one look at epoll has found; `next_` is the first that has not been told.
  std::vector<epoll_event> ready_;
  std::size_t ready_count_ = 0;
  std::size_t next_ = 0;
  // Removed while others are told, maybe by itself: it lives until all have been.
  std::vector<std::shared_ptr<watcher>> removed_;
  std::vector<std::shared_ptr<watcher>> ending_;
  bool telling_ = false;
  std::set<std::pair<time_point, int>> deadlines_;
  bool stopping_ = false;
  std::mutex mutex_;  // of what follows
  std::vector<std::function<void()>> posted_;
};

}  // namespace ddprun::store
