// Measures the store: one request in flight per connection, against an epoll echo server that does
// no work and against PyTorch's own TCPStore. Short rounds alternate between the servers, and what
// is printed are medians of ratios within one round, with the ratio of two rounds of the same echo
// server beside them as the noise.
//
//   store_benchmark [--rounds=N] [--milliseconds=N] [--python=PATH] [--connections=1,64,1000]
//
// PATH is $DDPRUN_PYTHON or .venv/bin/python unless given; PyTorch's server is left out where it
// has no torch. Each server is a process of its own; the
// load comes from this one.
#include "rendezvous/protocol/tcpstore.hpp"
#include "rendezvous/store/listener.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

namespace wire = ddprun::protocol::tcpstore;
using clock_type = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// ---- servers -----------------------------------------------------------------------------------

struct server {
  std::string name;
  pid_t pid = 0;
  std::uint16_t port = 0;
  bool echoes = false;
};

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
  boost::asio::io_context context(1);
  ddprun::store::listener listener(context.get_executor());
  if (const auto error = listener.open("127.0.0.1", 0)) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    std::exit(1);
  }
  dprintf(port_pipe, "%d\n", listener.port());
  context.run();
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

// Nanoseconds of processor time of all threads of a process so far.
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

// ---- load --------------------------------------------------------------------------------------

struct operation {
  std::string name;
  std::string request;
  std::size_t reply_bytes;
};

std::vector<operation> operations() {
  const std::string value(16, 'v');
  const auto made = [](auto... parts) {
    std::string bytes;
    wire::append_request(bytes, parts...);
    return bytes;
  };
  using strings = std::initializer_list<std::string_view>;
  const strings key{"/key"};
  const strings pair{"/key", value};
  return {
      {"get", made(wire::opcode::get, key), 8 + value.size()},
      {"add", made(wire::opcode::add, strings{"/count"}, std::int64_t{1}), 8},
      {"check", made(wire::opcode::check, key), 1},
      // A SET has no reply: a PING in the same segment tells that it is done.
      {"set", made(wire::opcode::set, pair) + made(wire::opcode::ping, strings{}, std::int64_t{7}),
       4},
  };
}

class load {
 public:
  load(const server& target, std::size_t connections) : echoes_(target.echoes) {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    for (std::size_t index = 0; index < connections; ++index)
      connect_one(target.port);
    std::string hello;
    wire::append_request(hello, wire::opcode::validate, {}, wire::validate_magic);
    wire::append_request(hello, wire::opcode::set, {"/key", std::string(16, 'v')});
    wire::append_request(hello, wire::opcode::ping, {}, 1);
    for (const int socket : sockets_)
      send_all(socket, hello);
    for (const int socket : sockets_)
      receive(socket, echoes_ ? hello.size() : 4);
  }
  ~load() {
    for (const int socket : sockets_)
      close(socket);
    close(poll_);
  }
  load(const load&) = delete;

  // Requests answered within `time`; afterwards none is in flight.
  std::size_t run(const operation& what, clock_type::duration time) {
    const std::size_t expected = echoes_ ? what.request.size() : what.reply_bytes;
    for (const int socket : sockets_)
      send_all(socket, what.request);
    const auto end = clock_type::now() + time;
    std::size_t in_flight = sockets_.size();
    std::size_t answered = 0;
    bool going = true;
    while (in_flight != 0) {
      epoll_event events[256];
      const int count = epoll_wait(poll_, events, 256, -1);
      going = going && clock_type::now() < end;
      for (int index = 0; index < count; ++index) {
        receive(events[index].data.fd, expected);
        answered += going ? 1 : 0;
        if (going) {
          send_all(events[index].data.fd, what.request);
        } else {
          --in_flight;
        }
      }
    }
    return answered;
  }

 private:
  void connect_one(std::uint16_t port) {
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
    epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
    epoll_ctl(poll_, EPOLL_CTL_ADD, socket, &event);
    sockets_.push_back(socket);
  }
  static void send_all(int socket, const std::string& bytes) {
    if (send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) fail("send");
  }
  static void receive(int socket, std::size_t bytes) {
    char buffer[4096];
    while (bytes != 0) {
      const ssize_t got = recv(socket, buffer, std::min(bytes, sizeof buffer), 0);
      if (got <= 0) fail("recv");
      bytes -= static_cast<std::size_t>(got);
    }
  }

  bool echoes_;
  int poll_ = -1;
  std::vector<int> sockets_;
};

// ---- report ------------------------------------------------------------------------------------

struct sample {
  double rate;            // requests per second
  double cpu_nanosecond;  // of the server, per request
};

double at(std::vector<double> values, double where) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(where * static_cast<double>(values.size() - 1) + 0.5)];
}

// Median of a[i] / b[i], and the quartiles.
std::string ratio(const std::vector<sample>& a, const std::vector<sample>& b, double sample::*of) {
  std::vector<double> ratios;
  for (std::size_t index = 0; index < a.size(); ++index) {
    ratios.push_back(a[index].*of / (b[index].*of));
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", at(ratios, 0.5), at(ratios, 0.25),
                at(ratios, 0.75));
  return text;
}

double median(const std::vector<sample>& samples, double sample::*of) {
  std::vector<double> values;
  for (const sample& each : samples)
    values.push_back(each.*of);
  return at(values, 0.5);
}

struct options {
  int rounds = 9;
  int milliseconds = 200;
  std::string python = ".venv/bin/python";
  std::vector<std::size_t> connections{1, 64, 1000};
};

void measure(const std::vector<server>& servers, const options& chosen, std::size_t connections) {
  std::vector<std::unique_ptr<load>> loads;
  for (const server& each : servers)
    loads.push_back(std::make_unique<load>(each, connections));
  for (const operation& what : operations()) {
    // One column for each server, and a second one for the echo server: the noise.
    std::vector<std::vector<sample>> columns(servers.size() + 1);
    for (int round = -1; round < chosen.rounds; ++round) {
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const std::size_t which = column % servers.size();
        const std::int64_t before = cpu_time(servers[which].pid);
        const auto start = clock_type::now();
        const std::size_t answered =
            loads[which]->run(what, std::chrono::milliseconds(chosen.milliseconds));
        const std::chrono::duration<double> took = clock_type::now() - start;
        const auto cpu = static_cast<double>(cpu_time(servers[which].pid) - before);
        const double requests = static_cast<double>(answered + connections);
        if (round >= 0) columns[column].push_back({requests / took.count(), cpu / requests});
      }
    }
    const auto& echo = columns[0];
    const auto& ours = columns[1];
    const bool torch = servers.size() > 2;
    std::printf("| %4zu | %-5s | %7.0f | %7.0f | %7.0f | %5.2f | %-16s | %-16s | %-16s | %-16s |\n",
                connections, what.name.c_str(), median(ours, &sample::rate),
                median(echo, &sample::rate), torch ? median(columns[2], &sample::rate) : 0.0,
                median(ours, &sample::cpu_nanosecond) / 1000,
                ratio(ours, echo, &sample::cpu_nanosecond).c_str(),
                torch ? ratio(columns[2], echo, &sample::cpu_nanosecond).c_str() : "-",
                torch ? ratio(ours, columns[2], &sample::rate).c_str() : "-",
                ratio(columns.back(), echo, &sample::cpu_nanosecond).c_str());
    std::fflush(stdout);
  }
}

options parse(int argc, char** argv) {
  options chosen;
  if (const char* const python = std::getenv("DDPRUN_PYTHON")) chosen.python = python;
  for (int index = 1; index < argc; ++index) {
    const std::string argument = argv[index];
    const auto value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--rounds=")) {
      chosen.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (argument.starts_with("--milliseconds=")) {
      chosen.milliseconds = std::max(1, std::atoi(value.c_str()));
    } else if (argument.starts_with("--python=")) {
      chosen.python = value;
    } else if (argument.starts_with("--connections=")) {
      chosen.connections.clear();
      for (const char* at = value.c_str(); at != nullptr;) {
        chosen.connections.push_back(std::strtoul(at, nullptr, 10));
        at = std::strchr(at, ',');
        if (at != nullptr) ++at;
      }
    } else {
      std::fprintf(stderr, "store_benchmark: unknown argument %s\n", argv[index]);
      std::exit(2);
    }
  }
  return chosen;
}

}  // namespace

int main(int argc, char** argv) {
  const options chosen = parse(argc, argv);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<server> servers;
  servers.push_back(*start("echo", serve_echo));
  servers.back().echoes = true;
  servers.push_back(*start("ddprun", serve_store));
  const auto torch = start("TCPStore", [&](int told) { serve_pytorch(told, chosen.python); });
  if (torch) servers.push_back(*torch);
  std::printf("%d rounds of %d ms, medians; (quartiles); us = server CPU per request\n",
              chosen.rounds, chosen.milliseconds);
  std::printf(
      "| conn | what  | ddprun/s |  echo/s | torch/s |   us  | CPU ddprun/echo  | CPU torch/echo   "
      "| rate ddprun/torch | CPU echo/echo   |\n");
  for (const std::size_t connections : chosen.connections)
    measure(servers, chosen, connections);
  for (const server& each : servers) {
    kill(each.pid, SIGKILL);
    waitpid(each.pid, nullptr, 0);
  }
}
