// The rendezvous daemon at which the nodes of a doctor's meeting find each other, where none
// listens at the endpoint and that is this host. It ends with the doctor and keeps nothing; agents
// of a job that come meanwhile look for the next one then.
//
// Thread rule: one thread; the daemon has its own.
#pragma once

#include "launcher/agent/socket_thread.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/server/server.hpp"

#include <memory>
#include <string>

namespace ddprun::launcher::doctor {

class meeting_daemon {
 public:
  meeting_daemon() = default;
  ~meeting_daemon() { thread_.stop(); }
  meeting_daemon(const meeting_daemon&) = delete;
  meeting_daemon& operator=(const meeting_daemon&) = delete;

  // Listens at the endpoint's port; only on loopback where the endpoint is that. Errors: the
  // system's, the port in use among them; `problem` has the sentence.
  error_code open(const cli::endpoint_address& endpoint, std::string& problem);
  bool is_open() const { return server_ != nullptr; }

 private:
  socket_thread thread_;
  std::unique_ptr<server::server> server_;  // on the thread, while that runs
};

}  // namespace ddprun::launcher::doctor
