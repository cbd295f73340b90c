// A reactor is the event loop of the store's connections, directly on epoll.
//
// The store answers a hundred thousand small requests a second, and at that rate the loop dominates
// the cost. Asio's loop reads once more after each request, finds nothing, and allocates; this one
// does what an echo server does: epoll_wait, recv, send. The rest of ddprun runs on Asio, which
// accepts a connection, recognises its protocol, and hands it over.
//
//   reactor loop;
//   std::thread thread([&] { loop.run(); });
//   loop.post([&] { loop.add(fd, EPOLLIN, watcher); });   // from any thread
//   loop.stop(); thread.join();
//
// Thread rule: `post` and `stop` from any thread; everything else, posted tasks included, on the
// thread of run(), or on any single thread while it is not running. Ownership: owns its watchers
// and the tasks that never ran. Errors: the constructor throws std::system_error (epoll, eventfd);
// `add` returns the error. A posted task that runs out of memory is dropped.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/core/messages/message_types.hpp"

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

// A watcher is called when its descriptor is ready, with epoll's events, or when its deadline has
// passed. It may remove itself and others in that call. It must not throw.
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

  // Returns once stopped; tasks that were posted before `stop` have run.
  void run();

  // `events` are epoll's: level-triggered or, with EPOLLET, once whenever more has arrived. `who`
  // is owned until `remove`, which must be called before the descriptor is closed; it is not called
  // after that.
  error_code add(int fd, std::uint32_t events, std::shared_ptr<watcher> who);
  // With EPOLLET, `who` is called again if the descriptor is ready now.
  void change(int fd, std::uint32_t events);
  void remove(int fd);

  // At most one deadline for each descriptor; it is cleared when it fires.
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
  // The events of one epoll_wait; `next_` is the first one that has not been handled.
  std::vector<epoll_event> ready_;
  std::size_t ready_count_ = 0;
  std::size_t next_ = 0;
  // Watchers removed while others are being called, perhaps by themselves. They live until the end
  // of the turn.
  std::vector<std::shared_ptr<watcher>> removed_;
  std::vector<std::shared_ptr<watcher>> ending_;
  bool telling_ = false;
  std::set<std::pair<time_point, int>> deadlines_;
  bool stopping_ = false;
  std::mutex mutex_;  // guards what follows
  std::vector<std::function<void()>> posted_;
};

}  // namespace ddprun::store
