// The agent's side of a zygote: a Python that imports ahead what a script imports, and forks spares
// that wait for a worker's work (ddprun_zygote.py, which has the protocol).
//
// It is started with the command line of a worker. So it may be started only after a worker of the
// same command has proved that its Python runs our sitecustomize.py: otherwise it would run the
// script.
//
// Thread rule: the main thread; events come from the executor, never from inside a call, and may
// destroy the zygote. Ownership: the references must outlive it. Destroying it kills the process;
// spares that it has made live on.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/spawner.hpp"
#include "launcher/warm/answer_options.hpp"
#include "rendezvous/net/packet.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::warm {

class zygote {
 public:
  struct options {
    std::string program;                   // Python's path
    std::vector<std::string> command;      // of a worker
    std::vector<std::string> environment;  // of a worker, without the variables of a rank
    std::vector<std::string> rank_names;   // those variables
    std::set<std::string> excluded;        // top-level modules that are not imported ahead
    std::string record;                    // path of the list, for other processes
    std::string prefix;                    // of what it says, "[node-a:warm] "
    answer_options answers;                // as in warm_options
  };

  struct events {
    // The list is imported and a canary lives; of no variable, or of the one that the script sets
    // before it imports the rest. `files`: which were imported, for imported_files::read().
    std::function<void(std::size_t modules, const std::string& variable, std::string files)> ready;
    // This module must not be imported ahead. The zygote is useless now; the next one must exclude
    // it.
    std::function<void(const std::string& module, const std::string& why)> dropped;
    std::function<void(const std::string& why)> refused;
    std::function<void(pid_t spare, unique_fd orders)> spare;
    std::function<void(const std::string& why)> failed;  // no spare this time
    // It holds more memory than is allowed now, and is useless until there is room.
    std::function<void(const std::string& why)> is_short;
    std::function<void()> killed;                       // by SIGKILL, as by the OOM killer
    std::function<void(const std::string& how)> ended;  // by itself, or it could not be started
  };

  zygote(boost::asio::any_io_executor executor, spawner& spawn, guardian& guard, log_mux& mux,
         options values, events handlers);
  ~zygote();
  zygote(const zygote&) = delete;
  zygote& operator=(const zygote&) = delete;

  void load();  // the new part of the list
  void make_spare();
  pid_t pid() const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::launcher::warm
