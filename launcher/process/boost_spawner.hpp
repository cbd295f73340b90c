// The spawner on Boost.Process v2, with a launcher of our own (see child_launcher.hpp), and Asio's
// descriptors.
//
// Boost's own process object (1.81) is not used: its wait reaps at once and cannot tell SIGKILL
// from exit(9), and its destructor kills and blocks. The end of a child is seen on a pidfd, and
// read by waitid with WNOWAIT: the child stays a zombie, and its group's ID stays ours, until
// reap().
//
// Thread rule, ownership: see spawner.hpp. Destroying it forgets the children and kills none.
#pragma once

#include "launcher/process/spawner.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <sys/resource.h>
#include <unordered_map>

namespace ddprun::launcher {

class boost_spawner final : public spawner {
 public:
  // Ends are reported on `executor`, which must be run by the thread that calls spawn(). Children
  // get the limit of open files that this process has now, even if it raises it later.
  explicit boost_spawner(boost::asio::any_io_executor executor);
  ~boost_spawner() override;
  boost_spawner(const boost_spawner&) = delete;
  boost_spawner& operator=(const boost_spawner&) = delete;

  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override;
  bool adopt(pid_t pid, ended_handler ended) override;
  void signal_group(pid_t pid, int signal) override;
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override;
  void reap(pid_t pid) override;
  bool reap_within(pid_t pid, duration limit) override;
  bool owns(pid_t pid) const override { return children_.count(pid) != 0; }

 private:
  struct child;

  std::shared_ptr<child> keep(pid_t pid, unique_fd handle, spawn_handlers handlers,
                              error_code& error);
  void await_report(const std::shared_ptr<child>& started);
  void await_end(const std::shared_ptr<child>& started);
  void told_start(child& started);
  void told_end(child& over);

  boost::asio::any_io_executor executor_;
  rlimit descriptor_limit_{};
  std::unordered_map<pid_t, std::shared_ptr<child>> children_;
};

}  // namespace ddprun::launcher
