#include "tests/benchmark/store_servers.hpp"

#include "tests/support/store_listener.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ddprun::benchmark {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

namespace {

void echo_connections(int listening) {
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{.events = EPOLLIN, .data = {.fd = listening}};
  epoll_ctl(poll, EPOLL_CTL_ADD, listening, &event);
  std::vector<epoll_event> events(256);
  std::vector<char> bytes(65536);
  while (true) {
    const int count = epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int index = 0; index < count; ++index) {
      const int from = events[static_cast<std::size_t>(index)].data.fd;
      if (from == listening) {
        const int accepted = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted < 0) continue;
        const int on = 1;
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_event added{.events = EPOLLIN, .data = {.fd = accepted}};
        epoll_ctl(poll, EPOLL_CTL_ADD, accepted, &added);
        continue;
      }
      const ssize_t got = recv(from, bytes.data(), bytes.size(), 0);
      if (got <= 0 || send(from, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) < 0) {
        close(from);
      }
    }
  }
}

void serve_echo(int port_pipe) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), length) != 0) fail("bind");
  if (listen(listening, 4096) != 0) fail("listen");
  getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length);
  dprintf(port_pipe, "%d\n", ntohs(address.sin_port));
  echo_connections(listening);
}

void serve_store(int port_pipe) {
  ddprun::store::reactor loop;
  ddprun::tests::store_listener listener(loop);
  if (const auto error = listener.listen(0)) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    std::exit(1);
  }
  dprintf(port_pipe, "%d\n", listener.port());
  // As in the daemon there is a second thread, with which system calls and shared pointers cost
  // more.
  std::thread thread([&] { loop.run(); });
  thread.join();
}

void serve_pytorch(int port_pipe, const std::string& python) {
  dup2(port_pipe, STDOUT_FILENO);
  const char* const program =
      "import signal, torch.distributed as d\n"
      "s = d.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
      "print(s.port, flush=True)\n"
      "signal.pause()\n";
  execlp(python.c_str(), python.c_str(), "-c", program, nullptr);
  std::exit(127);
}

std::optional<server> start(const std::string& name, const std::function<void(int)>& serve) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(ends[1]);
    std::exit(1);
  }
  close(ends[1]);
  FILE* const told = fdopen(ends[0], "r");
  int port = 0;
  const bool started = std::fscanf(told, "%d", &port) == 1;
  std::fclose(told);
  if (started) return server{name, pid, static_cast<std::uint16_t>(port)};
  waitpid(pid, nullptr, 0);
  return std::nullopt;
}

}  // namespace

server start_echo() {
  server started = *start("echo", serve_echo);
  started.echoes = true;
  return started;
}

server start_store() {
  return *start("ddprun", serve_store);
}

std::optional<server> start_pytorch(const std::string& python) {
  return start("TCPStore", [&](int told) { serve_pytorch(told, python); });
}

void stop(const server& which) {
  kill(which.pid, SIGKILL);
  waitpid(which.pid, nullptr, 0);
}

std::vector<std::size_t> counts_of(const std::string& text) {
  std::vector<std::size_t> counts;
  for (const char* at = text.c_str(); at != nullptr;) {
    counts.push_back(std::strtoul(at, nullptr, 10));
    at = std::strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return counts;
}

std::string default_python() {
  const char* const python = std::getenv("DDPRUN_PYTHON");
  return python != nullptr ? python : ".venv/bin/python";
}

std::int64_t cpu_time(pid_t pid) {
  std::int64_t total = 0;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(thread.path() / "schedstat");
    std::int64_t time = 0;
    file >> time;
    total += time;
  }
  return total;
}

std::int64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t most = std::max<rlim_t>(limit.rlim_max, 65536);
  const rlimit wanted{most, most};  // only root may exceed the hard limit
  if (setrlimit(RLIMIT_NOFILE, &wanted) != 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

int connect_to(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket < 0 || connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fail("connect");
  }
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace ddprun::benchmark
