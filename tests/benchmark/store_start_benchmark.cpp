// Measures what a job's start asks of its store, ours against PyTorch's own, alternating:
//
//   start     N ranks connect, VALIDATE, PING, ADD init/, SET their own key, WAIT for the keys of
//             all, MULTI_GET them all: seconds until the last rank has everything
//   waiters   N clients WAIT for one key: milliseconds from its SET until the last has woken
//   memory    bytes of the server for each idle connection, and for each stored key
//
//   store_start_benchmark [--rounds=N] [--ranks=16,64,256,1024,4096] [--waiters=N] [--python=PATH]
//
// All ranks are connections of this one process, so its own work is part of what is measured, and
// is the same for both servers.
#include "rendezvous/protocol/tcpstore.hpp"
#include "tests/benchmark/store_servers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

namespace wire = ddprun::protocol::tcpstore;
using namespace ddprun::benchmark;
using clock_type = std::chrono::steady_clock;
using wire::opcode;

constexpr std::size_t value_bytes = 16;

struct step {
  std::string request;
  std::size_t reply_bytes;
};

std::string key_of(std::size_t rank) {
  return "/default_pg/0//cuda//" + std::to_string(rank);
}

// The last two steps are the same for all ranks, and long, so they are built only once.
struct script {
  explicit script(std::size_t ranks) : all(shared(ranks)) {}

  static std::vector<step> shared(std::size_t ranks) {
    const auto tell_all = [&](opcode code) {
      std::string bytes(1, static_cast<char>(code));
      wire::append_i64(bytes, static_cast<std::int64_t>(ranks));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::string key = key_of(rank);
        wire::append_i64(bytes, static_cast<std::int64_t>(key.size()));
        bytes += key;
      }
      return bytes;
    };
    return {{tell_all(opcode::wait), 1}, {tell_all(opcode::multi_get), ranks * (8 + value_bytes)}};
  }
  static step first(std::size_t rank) {
    step made{{}, 4 + 8};
    wire::append_request(made.request, opcode::validate, {}, wire::validate_magic);
    wire::append_request(made.request, opcode::ping, {}, 7);
    wire::append_request(made.request, opcode::add, {"init/"}, 1);
    wire::append_request(made.request, opcode::set, {key_of(rank), std::string(value_bytes, 'v')});
    return made;
  }

  std::vector<step> all;
};

// One rank, which sends the rest of its step and counts the bytes of the reply down.
struct rank_client {
  int socket = -1;
  std::size_t next = 0;  // index of the next shared step
  std::string_view unsent;
  std::size_t awaited = 0;
  bool is_blocked = false;  // the socket takes no more bytes
  bool is_done = false;
};

class crowd {
 public:
  crowd(std::uint16_t port, std::size_t ranks) : script_(ranks), clients_(ranks) {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      firsts_.push_back(script::first(rank));
      clients_[rank].socket = connect_to(port);
      fcntl(clients_[rank].socket, F_SETFL, O_NONBLOCK);
      epoll_event event{.events = EPOLLIN, .data = {.u64 = rank}};
      epoll_ctl(poll_, EPOLL_CTL_ADD, clients_[rank].socket, &event);
    }
  }
  ~crowd() {
    for (const rank_client& each : clients_)
      close(each.socket);
    close(poll_);
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;

  void run() {
    left_ = clients_.size();
    for (std::size_t rank = 0; rank < clients_.size(); ++rank)
      begin(rank, firsts_[rank]);
    std::vector<epoll_event> events(256);
    while (left_ != 0) {
      const int count = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), -1);
      for (int index = 0; index < count; ++index) {
        const epoll_event& event = events[static_cast<std::size_t>(index)];
        if (event.events & EPOLLOUT) send_more(event.data.u64);
        if (event.events & EPOLLIN) receive(event.data.u64);
      }
    }
  }

 private:
  void begin(std::size_t rank, const step& what) {
    rank_client& who = clients_[rank];
    who.unsent = what.request;
    who.awaited = what.reply_bytes;
    send_more(rank);
  }
  void send_more(std::size_t rank) {
    rank_client& who = clients_[rank];
    while (!who.unsent.empty()) {
      const ssize_t sent = send(who.socket, who.unsent.data(), who.unsent.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) fail("send");
      if (sent < 0) {
        if (!std::exchange(who.is_blocked, true)) watch(rank, EPOLLIN | EPOLLOUT);
        return;
      }
      who.unsent.remove_prefix(static_cast<std::size_t>(sent));
    }
    if (std::exchange(who.is_blocked, false)) watch(rank, EPOLLIN);
  }
  void watch(std::size_t rank, std::uint32_t what) {
    epoll_event event{.events = what, .data = {.u64 = rank}};
    epoll_ctl(poll_, EPOLL_CTL_MOD, clients_[rank].socket, &event);
  }
  void receive(std::size_t rank) {
    rank_client& who = clients_[rank];
    static char bytes[65536];
    while (who.awaited != 0) {
      const ssize_t got = recv(who.socket, bytes, std::min(who.awaited, sizeof bytes), 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) fail("recv");
      if (got < 0) return;
      who.awaited -= static_cast<std::size_t>(got);
    }
    if (who.next == script_.all.size()) {
      if (!std::exchange(who.is_done, true)) --left_;
      return;
    }
    begin(rank, script_.all[who.next++]);
  }

  script script_;
  std::vector<step> firsts_;
  std::vector<rank_client> clients_;
  int poll_ = -1;
  std::size_t left_ = 0;
};

double seconds_of(const std::function<void()>& what) {
  const auto start = clock_type::now();
  what();
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double start_once(const std::function<server()>& make, std::size_t ranks) {
  const server which = make();
  const double took = seconds_of([&] { crowd(which.port, ranks).run(); });
  stop(which);
  return took;
}

void say(int socket, const std::string& bytes) {
  if (send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) fail("send");
}

void hear(int socket, std::size_t bytes) {
  char buffer[64];
  while (bytes != 0) {
    const ssize_t got = recv(socket, buffer, std::min(bytes, sizeof buffer), 0);
    if (got <= 0) fail("recv");
    bytes -= static_cast<std::size_t>(got);
  }
}

std::vector<int> connected(const server& which, std::size_t count) {
  std::string hello;
  wire::append_request(hello, opcode::validate, {}, wire::validate_magic);
  wire::append_request(hello, opcode::ping, {}, 7);
  std::vector<int> sockets;
  for (std::size_t index = 0; index < count; ++index) {
    sockets.push_back(connect_to(which.port));
    say(sockets.back(), hello);
  }
  for (const int socket : sockets)
    hear(socket, 4);
  return sockets;
}

double wake_once(const std::function<server()>& make, std::size_t waiters) {
  const server which = make();
  const std::vector<int> sockets = connected(which, waiters + 1);
  std::string wait;
  wire::append_request(wait, opcode::wait, {"/key"});
  for (std::size_t index = 0; index < waiters; ++index)
    say(sockets[index], wait);
  // A WAIT has no reply before its key is set, so when the server is idle, it has read them all.
  for (std::int64_t used = -1; used != cpu_time(which.pid);) {
    used = cpu_time(which.pid);
    usleep(50'000);
  }
  std::string set;
  wire::append_request(set, opcode::set, {"/key", "v"});
  const double took = seconds_of([&] {
    say(sockets.back(), set);
    for (std::size_t index = 0; index < waiters; ++index)
      hear(sockets[index], 1);
  });
  for (const int socket : sockets)
    close(socket);
  stop(which);
  return took;
}

struct footprint {
  double connection = 0;
  double key = 0;
};

footprint footprint_of(const std::function<server()>& make) {
  constexpr std::size_t connections = 2000;
  constexpr std::size_t keys = 100'000;
  const server which = make();
  const std::vector<int> first = connected(which, 1);
  const auto before = resident_bytes(which.pid);
  const std::vector<int> sockets = connected(which, connections);
  const auto with_connections = resident_bytes(which.pid);
  std::string ping;
  wire::append_request(ping, opcode::ping, {}, 7);
  for (std::size_t index = 0; index < keys; ++index) {
    std::string set;
    wire::append_request(set, opcode::set, {"/key/" + std::to_string(index), "sixteen bytes ok"});
    if (index % 100 == 99) set += ping;
    say(first[0], set);
    if (index % 100 == 99) hear(first[0], 4);
  }
  const auto with_keys = resident_bytes(which.pid);
  for (const int socket : sockets)
    close(socket);
  close(first[0]);
  stop(which);
  return {static_cast<double>(with_connections - before) / connections,
          static_cast<double>(with_keys - with_connections) / keys};
}

struct options {
  int rounds = 3;
  std::size_t waiters = 4096;
  std::vector<std::size_t> ranks{16, 64, 256, 1024, 4096};
  std::string python = default_python();
};

options parse(int argc, char** argv) {
  options chosen;
  for (int index = 1; index < argc; ++index) {
    const std::string argument = argv[index];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--rounds=")) {
      chosen.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (argument.starts_with("--waiters=")) {
      chosen.waiters = std::strtoul(value.c_str(), nullptr, 10);
    } else if (argument.starts_with("--python=")) {
      chosen.python = value;
    } else if (argument.starts_with("--ranks=")) {
      chosen.ranks = counts_of(value);
    } else {
      std::fprintf(stderr, "store_start_benchmark: unknown argument %s\n", argv[index]);
      std::exit(2);
    }
  }
  return chosen;
}

}  // namespace

int main(int argc, char** argv) {
  const options chosen = parse(argc, argv);
  raise_descriptor_limit();
  const auto probe = start_pytorch(chosen.python);
  if (probe) stop(*probe);
  const std::function<server()> ours = start_store;
  const std::function<server()> torch = [&] { return *start_pytorch(chosen.python); };
  const auto print = [&](const std::string& what, const std::function<double(bool)>& once,
                         const char* unit, double scale) {
    std::vector<double> left;
    std::vector<double> right;
    for (int round = 0; round < chosen.rounds; ++round) {
      left.push_back(once(false) * scale);
      if (probe) right.push_back(once(true) * scale);
    }
    std::printf("%-28s ddprun %9.2f %s (%.2f to %.2f)", what.c_str(), median(left), unit,
                *std::min_element(left.begin(), left.end()),
                *std::max_element(left.begin(), left.end()));
    if (probe) {
      std::printf("   TCPStore %9.2f %s (%.2f to %.2f)   %.2f x", median(right), unit,
                  *std::min_element(right.begin(), right.end()),
                  *std::max_element(right.begin(), right.end()), median(right) / median(left));
    }
    std::printf("\n");
    std::fflush(stdout);
  };
  for (const std::size_t ranks : chosen.ranks) {
    print(
        "start of " + std::to_string(ranks) + " ranks",
        [&](bool other) { return start_once(other ? torch : ours, ranks); }, "ms", 1000);
  }
  print(
      "SET wakes " + std::to_string(chosen.waiters),
      [&](bool other) { return wake_once(other ? torch : ours, chosen.waiters); }, "ms", 1000);
  print(
      "bytes for a connection",
      [&](bool other) { return footprint_of(other ? torch : ours).connection; }, "B ", 1);
  print(
      "bytes for a key", [&](bool other) { return footprint_of(other ? torch : ours).key; }, "B ",
      1);
}
