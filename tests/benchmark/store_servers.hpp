// The servers that the store's benchmarks compare, each in a process of its own: an epoll echo
// server that does no work, our store, and PyTorch's TCPStore if there is a Python with torch.
//
// Ownership: a server lives until `stop`, or until its starter dies.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::benchmark {

struct server {
  std::string name;
  pid_t pid = 0;
  std::uint16_t port = 0;
  bool echoes = false;
};

server start_echo();
server start_store();
// None if `python` has no torch.
std::optional<server> start_pytorch(const std::string& python);
void stop(const server& which);

// Parses "1,64,1000" of the benchmarks' command lines.
std::vector<std::size_t> counts_of(const std::string& text);

// $DDPRUN_PYTHON, or .venv/bin/python.
std::string default_python();

// Nanoseconds of processor time of all threads of a process so far.
std::int64_t cpu_time(pid_t pid);
// Its resident memory in bytes.
std::int64_t resident_bytes(pid_t pid);

std::size_t raise_descriptor_limit();  // returns the new limit
int connect_to(std::uint16_t port);    // blocking, TCP_NODELAY; ends the program on failure
[[noreturn]] void fail(const char* what);

}  // namespace ddprun::benchmark
