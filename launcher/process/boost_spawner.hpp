// The spawner over Boost.Process v2 (1.81): its launcher forks, our child_setup does the rest.
//
// Boost 1.81 has traps, and this is the one place that knows them:
// - The launcher tells the execution context of the fork, which then registers every socket in it
//   anew: 9,000 sockets made a spawn 21.8 ms. It is given a context of its own without any.
// - It waits in the parent until exec, on a pipe of its own: the child closes that pipe early.
// - After a failed exec it leaves with exit(), which prints the parent's buffered output again, and
//   does not reap. The child here never comes back to it, and reports through a pipe of ours.
// - Its wait reaps at once and calls SIGKILL "9", as it does exit(9). The end is seen here on a
//   pidfd, by waitid with WNOWAIT: the child stays a zombie, its group's number ours, until reap().
// - Its process object kills and blocks in its destructor: it is detached at once.
//
// Thread rule, ownership: see spawner.hpp. Destroying it forgets the children and kills none.
#pragma once

#include "launcher/process/spawner.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <sys/resource.h>
#include <unordered_map>

namespace ddprun {

class boost_spawner final : public spawner {
 public:
  // Ends are reported on `executor`, which must be run by the thread that calls spawn(). Children
  // get the limit of open files that this process has now, whatever it raises it to later.
  explicit boost_spawner(boost::asio::any_io_executor executor);
  ~boost_spawner() override;
  boost_spawner(const boost_spawner&) = delete;
  boost_spawner& operator=(const boost_spawner&) = delete;

  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override;
  void adopt(pid_t pid, ended_handler ended) override;
  void signal_group(pid_t pid, int signal) override;
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override;
  void reap(pid_t pid) override;
  bool owns(pid_t pid) const override { return children_.count(pid) != 0; }

 private:
  struct child;

  std::shared_ptr<child> keep(pid_t pid, spawn_handlers handlers);
  void await_report(const std::shared_ptr<child>& started);
  void await_end(const std::shared_ptr<child>& started);
  void told_end(child& over);

  boost::asio::any_io_executor executor_;
  boost::asio::io_context fork_context_;  // never run; holds no socket
  rlimit descriptor_limit_{};
  std::unordered_map<pid_t, std::shared_ptr<child>> children_;
};

}  // namespace ddprun
