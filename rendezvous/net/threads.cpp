#include "rendezvous/net/threads.hpp"

#include "rendezvous/net/signals_blocked.hpp"

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
    return {error.code().value(), boost::system::system_category()};
  }
}

std::string thread_problem(const std::string& purpose, const error_code& error) {
  return "cannot start a thread for " + purpose + ": " + error.message() +
         "; look at the limit of processes of this user (ulimit -u) or container (pids.max)";
}

}  // namespace ddprun::net
