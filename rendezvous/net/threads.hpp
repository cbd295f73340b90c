// Starts threads so that a system that has none left is an answer and not the end of the process.
//
// Each connection costs a descriptor and most threads are started when something comes from
// outside: at the user's limit of processes that must cost what was asked for, nothing else.
//
// Thread rule: any thread; `run_loop` calls `told` on its own.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/types.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>
#include <thread>

namespace ddprun::net {

// Starts `body` in `thread`, with all signals blocked: the main thread receives them. `name` is
// what ps and top show, at most 15 bytes. Errors: the system's.
error_code start_thread(std::thread& thread, const char* name, std::function<void()> body);

// Runs the loop until it stops. What leaves a handler (no memory, a refusal of the system) ends
// what that handler was about, and is `told` in one line from here: it is not the end of the
// process.
void run_loop(asio::io_context& loop, const std::function<void(const std::string&)>& told);

// One line for a person: "cannot start a thread for the job store: Resource temporarily
// unavailable; ...", and where the limits are.
std::string thread_problem(const std::string& purpose, const error_code& error);

}  // namespace ddprun::net
