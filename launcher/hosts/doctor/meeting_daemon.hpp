// The rendezvous daemon for a doctor's meeting, if the endpoint is this host and nobody listens
// there. It ends with the doctor and persists nothing; agents of a job that come meanwhile then
// look for the next daemon.
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

  // Listens at the endpoint's port, only on loopback if the endpoint is loopback. Errors: the
  // system's, including a port in use; `problem` has the sentence.
  error_code open(const cli::endpoint_address& endpoint, std::string& problem);
  bool is_open() const { return server_ != nullptr; }

 private:
  socket_thread thread_;
  std::unique_ptr<server::server> server_;  // used on the thread while that runs
};

}  // namespace ddprun::launcher::doctor
