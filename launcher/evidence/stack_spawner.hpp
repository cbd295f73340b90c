// The stack_spawner starts Python workers with ddprun_stacks.py, so that they can be asked where
// they are. All other processes, and workers that start with other code of ours (launcher/warm),
// are passed to the inner spawner unchanged.
//
// Thread rule, ownership: see spawner.hpp; the inner spawner must outlive it.
#pragma once

#include "launcher/process/spawner.hpp"
#include "launcher/warm/answer_options.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <string>

namespace ddprun::launcher::evidence {

class stack_spawner final : public spawner {
 public:
  // `server_folder`: see server_folder.hpp; may be empty.
  stack_spawner(spawner& inner, std::string server_folder);

  // False: the file could not be created, and workers are started without it.
  bool is_on() const { return static_cast<bool>(site_); }
  const std::string& path() const { return path_; }
  // As workers that begin with this file are asked.
  const warm::answer_options& answers() const { return answers_; }

  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override;
  bool adopt(pid_t pid, ended_handler ended) override {
    return inner_.adopt(pid, std::move(ended));
  }
  void signal_group(pid_t pid, int signal) override { inner_.signal_group(pid, signal); }
  void reap(pid_t pid) override { inner_.reap(pid); }
  bool reap_within(pid_t pid, duration limit) override { return inner_.reap_within(pid, limit); }
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override {
    return inner_.living_groups(groups);
  }
  bool owns(pid_t pid) const override { return inner_.owns(pid); }

 private:
  spawner& inner_;
  warm::answer_options answers_;
  unique_fd site_;
  std::string path_;
};

}  // namespace ddprun::launcher::evidence
