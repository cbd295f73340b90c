// Measures the store with one request in flight per connection, compared with an epoll echo server
// that does no work (level triggered, as such servers usually are) and with PyTorch's own TCPStore.
// Short rounds alternate between the servers. Printed are medians of ratios within one round, and
// beside them, as the noise, the ratio of two rounds of the same echo server.
//
//   store_benchmark [--rounds=N] [--milliseconds=N] [--python=PATH] [--connections=1,64,1000,10000]
//
// PATH is $DDPRUN_PYTHON or .venv/bin/python unless given; if it has no torch, PyTorch's server is
// left out. Each server is a process of its own; the load comes from this process.
#include "rendezvous/protocol/tcpstore.hpp"
#include "tests/benchmark/store_servers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

namespace wire = ddprun::protocol::tcpstore;
using namespace ddprun::benchmark;
using clock_type = std::chrono::steady_clock;

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
      // A SET has no reply, so a PING in the same segment shows that it is done.
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
  // The connections are reset, because tens of thousands of orderly closes would use up the ports.
  ~load() {
    const linger reset{.l_onoff = 1, .l_linger = 0};
    for (const int socket : sockets_) {
      setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      close(socket);
    }
    close(poll_);
  }
  load(const load&) = delete;

  // How many requests are answered within `time`; afterwards none is in flight.
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
    const int socket = connect_to(port);
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
  std::string python = default_python();
  std::vector<std::size_t> connections{1, 64, 1000, 10000};
};

// Another server ran before this one, and the state in which it left the caches must not count
// here, above all if one server is measured twice in a row. So the first half of a sample's time is
// not counted.
sample take_sample(const server& from, load& by, const operation& what, const options& chosen,
                   std::size_t connections) {
  by.run(what, std::chrono::milliseconds(chosen.milliseconds) / 2);
  const std::int64_t before = cpu_time(from.pid);
  const auto start = clock_type::now();
  const std::size_t answered = by.run(what, std::chrono::milliseconds(chosen.milliseconds));
  const std::chrono::duration<double> took = clock_type::now() - start;
  const auto cpu = static_cast<double>(cpu_time(from.pid) - before);
  const double requests = static_cast<double>(answered + connections);
  return {requests / took.count(), cpu / requests};
}

// One column for each server, and a second one for the echo server, which shows the noise.
using columns = std::vector<std::vector<sample>>;

// Measures each operation. The servers alternate for each operation if all their connections fit
// into this process; otherwise they alternate for all operations together, with new connections to
// each server.
std::vector<columns> measure(const std::vector<server>& servers, const options& chosen,
                             std::size_t connections, bool all_at_once) {
  const std::vector<operation> all = operations();
  std::vector<columns> taken(all.size(), columns(servers.size() + 1));
  std::vector<std::unique_ptr<load>> loads(servers.size());
  const auto sample_one = [&](std::size_t what, std::size_t column, bool counts) {
    const std::size_t which = column % servers.size();
    if (!loads[which]) loads[which] = std::make_unique<load>(servers[which], connections);
    const sample one = take_sample(servers[which], *loads[which], all[what], chosen, connections);
    if (counts) taken[what][column].push_back(one);
  };
  for (int round = -1; all_at_once && round < chosen.rounds; ++round) {
    for (std::size_t what = 0; what < all.size(); ++what) {
      for (std::size_t column = 0; column <= servers.size(); ++column)
        sample_one(what, column, round >= 0);
    }
  }
  for (int round = 0; !all_at_once && round < chosen.rounds; ++round) {
    for (std::size_t column = 0; column <= servers.size(); ++column) {
      for (std::size_t what = 0; what < all.size(); ++what)
        sample_one(what, column, true);
      loads[column % servers.size()].reset();
    }
  }
  return taken;
}

void print(std::size_t connections, const std::string& what, const columns& taken) {
  const auto& echo = taken[0];
  const auto& ours = taken[1];
  const bool torch = taken.size() > 3;
  std::printf("| %4zu | %-5s | %7.0f | %7.0f | %7.0f | %5.2f | %-16s | %-16s | %-16s | %-16s |\n",
              connections, what.c_str(), median(ours, &sample::rate), median(echo, &sample::rate),
              torch ? median(taken[2], &sample::rate) : 0.0,
              median(ours, &sample::cpu_nanosecond) / 1000,
              ratio(ours, echo, &sample::cpu_nanosecond).c_str(),
              torch ? ratio(taken[2], echo, &sample::cpu_nanosecond).c_str() : "-",
              torch ? ratio(ours, taken[2], &sample::rate).c_str() : "-",
              ratio(taken.back(), echo, &sample::cpu_nanosecond).c_str());
}

options parse(int argc, char** argv) {
  options chosen;
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
      chosen.connections = counts_of(value);
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
  const std::size_t descriptors = raise_descriptor_limit();
  std::vector<server> servers{start_echo(), start_store()};
  if (const auto torch = start_pytorch(chosen.python)) servers.push_back(*torch);
  std::printf("%d rounds of %d ms, medians; (quartiles); us = server CPU per request\n",
              chosen.rounds, chosen.milliseconds);
  std::printf(
      "| conn | what  | ddprun/s |  echo/s | torch/s |   us  | CPU ddprun/echo  | CPU torch/echo   "
      "| rate ddprun/torch | CPU echo/echo   |\n");
  for (const std::size_t connections : chosen.connections) {
    if (connections + 64 > descriptors) {
      std::printf("| %4zu | left out: at most %zu open files (ulimit -n)\n", connections,
                  descriptors);
      continue;
    }
    const bool all_at_once = servers.size() * connections + 64 <= descriptors;
    const auto taken = measure(servers, chosen, connections, all_at_once);
    for (std::size_t what = 0; what < taken.size(); ++what)
      print(connections, operations()[what].name, taken[what]);
    std::fflush(stdout);
  }
  for (const server& each : servers)
    stop(each);
}
