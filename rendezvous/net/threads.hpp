// Starts threads, and returns an error if the system cannot start another one, instead of ending
// the process.
//
// Most threads are started on behalf of a peer. At the user's limit of processes only that request
// should fail.
//
// Thread rule: any thread; `run_loop` calls `told` on its own thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/net_types.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>
#include <thread>

namespace ddprun::net {

// Starts `body` in `thread`, with all signals blocked: the main thread receives them. `name` is
// what ps and top show, at most 15 bytes. Errors: the system's.
error_code start_thread(std::thread& thread, const char* name, std::function<void()> body);

// Runs the loop until it stops. An exception that leaves a handler (no memory, a system error) ends
// only that operation, and `told` gets one line about it.
void run_loop(asio::io_context& loop, const std::function<void(const std::string&)>& told);

// One line for the user, which also says where the limits are: "cannot start a thread for the job
// store: Resource temporarily unavailable; ...".
std::string thread_problem(const std::string& purpose, const error_code& error);

}  // namespace ddprun::net
