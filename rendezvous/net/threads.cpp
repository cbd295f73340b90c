#include "rendezvous/net/threads.hpp"

#include "rendezvous/base/signals_blocked.hpp"

#include <exception>
#include <pthread.h>
#include <system_error>
#include <utility>

namespace ddprun::net {

error_code start_thread(std::thread& thread, const char* name, std::function<void()> body) {
  const signals_blocked blocked;
  try {
    thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
    return {};
  } catch (const std::system_error& error) {
    return system_error(error.code().value());
  }
}

void run_loop(asio::io_context& loop, const std::function<void(const std::string&)>& told) {
  while (true) {
    try {
      loop.run();
      return;
    } catch (const std::exception& error) {
      try {
        told(std::string("an operation failed and was skipped: ") + error.what());
      } catch (const std::exception&) {
        // There is no memory for the message either.
      }
    }
  }
}

std::string thread_problem(const std::string& purpose, const error_code& error) {
  namespace errc = boost::system::errc;
  std::string cure =
      "look at the limit of processes of this user (ulimit -u) or container (pids.max)";
  if (error == errc::too_many_files_open || error == errc::too_many_files_open_in_system)
    cure = "look at the limit of open files (ulimit -n)";
  if (error == errc::not_enough_memory)
    cure =
        "this host or container (memory.max) is short of memory, or the process may have no "
        "more (ulimit -v)";
  return "cannot start a thread for " + purpose + ": " + error.message() + "; " + cure;
}

}  // namespace ddprun::net
