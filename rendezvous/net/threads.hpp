// Starts threads so that a system that has none left is an answer and not the end of the process.
//
// Each connection costs a descriptor and most threads are started when something comes from
// outside: at the user's limit of processes that must cost what was asked for, nothing else.
//
// Thread rule: any thread.
#pragma once

#include "rendezvous/error.hpp"

#include <functional>
#include <string>
#include <thread>

namespace ddprun::net {

// Starts `body` in `thread`, with all signals blocked: the main thread receives them. `name` is
// what ps and top show, at most 15 bytes. Errors: the system's.
error_code start_thread(std::thread& thread, const char* name, std::function<void()> body);

// One line for a person: "cannot start a thread for the job store: Resource temporarily
// unavailable; ...", and where the limits are.
std::string thread_problem(const std::string& purpose, const error_code& error);

}  // namespace ddprun::net
