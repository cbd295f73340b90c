// 10,000 agents rendezvous with one real ddprun-rendezvous: the time from the last join sent to the
// last assignment received, and the daemon's CPU time and memory.
//
// The agents are connections of this one process that speak the agent protocol over epoll. All but
// one join and wait; the last join starts the clock. The leader answers its `prepare`; then every
// connection must receive its `run`. Usage: rendezvous_benchmark [AGENTS [ROUNDS]].
#include "rendezvous/protocol/agent_protocol.hpp"
#include "rendezvous/protocol/line_reader.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "rendezvous_benchmark: %s (%s)\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// The daemon as a child process, on a port that it chooses.
class daemon_process {
 public:
  explicit daemon_process(const std::filesystem::path& program) {
    const auto folder = std::filesystem::temp_directory_path();
    port_file_ = folder / ("rendezvous_benchmark." + std::to_string(getpid()));
    std::filesystem::remove(port_file_);
    pid_ = fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // also if the benchmark fails
      execl(program.c_str(), program.c_str(), "--bind", "127.0.0.1", "--port", "0", "--port-file",
            port_file_.c_str(), "--recovery-window", "0", "--log-level", "error", nullptr);
      std::perror("cannot start ddprun-rendezvous");
      _exit(127);
    }
    while (!std::filesystem::exists(port_file_)) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0) fail("the daemon ended at its start");
      std::this_thread::sleep_for(1ms);
    }
    std::ifstream(port_file_) >> port_;
  }
  ~daemon_process() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove(port_file_);
  }
  daemon_process(const daemon_process&) = delete;
  daemon_process& operator=(const daemon_process&) = delete;

  std::uint16_t port() const { return port_; }

  double cpu_ms() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string word;
    for (int index = 0; index < 13; ++index)
      file >> word;
    long user = 0;
    long system = 0;
    file >> user >> system;
    return static_cast<double>(user + system) * 1000 / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  double high_water_mb() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    }
    return 0;
  }

 private:
  pid_t pid_ = -1;
  std::filesystem::path port_file_;
  std::uint16_t port_ = 0;
};

struct agent {
  int socket = -1;
  ddprun::protocol::line_reader lines;
  bool assigned = false;
};

class load {
 public:
  load(std::uint16_t port, std::uint32_t count) : count_(count), agents_(count) {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    address_.sin_family = AF_INET;
    address_.sin_port = htons(port);
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  ~load() {
    for (agent& each : agents_) {
      if (each.socket >= 0) close(each.socket);
    }
    close(poll_);
  }
  load(const load&) = delete;
  load& operator=(const load&) = delete;

  // Like an agent, this sends a hello as soon as it is connected, because a daemon closes silent
  // connections if there are many.
  void dial(std::uint32_t index) {
    const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (handle < 0) fail("socket " + std::to_string(index));
    if (connect(handle, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0) {
      fail("connect " + std::to_string(index));
    }
    const int on = 1;
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = index;
    epoll_ctl(poll_, EPOLL_CTL_ADD, handle, &event);
    agents_[index].socket = handle;
  }

  void join(std::uint32_t index) {
    if (agents_[index].socket < 0) dial(index);
    ddprun::hello hello;
    hello.run_id = "benchmark";
    hello.session = {1, index + 1};
    hello.node = "node" + std::to_string(index);
    hello.host = hello.node;
    hello.worker_count = 8;
    hello.own_address = "127.0.0.1";
    hello.settings.nodes_min = hello.settings.nodes_max = count_;
    // None of our heartbeats becomes due during the measurement.
    hello.settings.timing = ddprun::timers_for(10min);
    hello.state.seq = 1;
    send(index, ddprun::protocol::encode(ddprun::agent_message(hello)));
  }

  // Reads what has arrived, for `wait` at most.
  void pump(std::chrono::milliseconds wait) {
    std::array<epoll_event, 512> events;
    const int ready =
        epoll_wait(poll_, events.data(), events.size(), static_cast<int>(wait.count()));
    std::array<char, 65536> bytes;
    for (int each = 0; each < ready; ++each) {
      const std::uint32_t index = events[static_cast<std::size_t>(each)].data.u32;
      const ssize_t got = recv(agents_[index].socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) fail("the daemon closed connection " + std::to_string(index));
      agents_[index].lines.append({bytes.data(), static_cast<std::size_t>(got)});
      while (auto line = agents_[index].lines.next())
        take(index, *line);
    }
  }

  std::uint32_t welcomed() const { return welcomed_; }
  std::uint32_t assigned() const { return assigned_; }

 private:
  void take(std::uint32_t index, std::string_view line) {
    auto message = ddprun::protocol::decode_daemon_message(line);
    if (!message) fail("a line that is not ours: " + std::string(line));
    if (std::holds_alternative<ddprun::welcome>(*message)) ++welcomed_;
    if (auto* no = std::get_if<ddprun::refused>(&*message)) fail("refused: " + no->text);
    auto* wanted = std::get_if<ddprun::desired>(&*message);
    if (wanted == nullptr) return;
    if (wanted->phase == ddprun::desired_phase::prepare) answer_prepare(index, *wanted);
    if (wanted->phase == ddprun::desired_phase::run && !agents_[index].assigned) {
      agents_[index].assigned = true;
      ++assigned_;
    }
  }

  void answer_prepare(std::uint32_t index, const ddprun::desired& wanted) {
    ddprun::status status;
    status.seq = 2;
    status.instance = wanted.instance;
    status.round = wanted.round;
    status.desired_seq = wanted.seq;
    status.phase = ddprun::member_phase::preparing;
    status.service_port = status.master_port = 29500;
    send(index, ddprun::protocol::encode(ddprun::agent_message(status)));
  }

  void send(std::uint32_t index, const std::string& line) {
    const char* data = line.data();
    std::size_t left = line.size();
    while (left > 0) {
      const ssize_t sent = ::send(agents_[index].socket, data, left, MSG_NOSIGNAL);
      if (sent < 0) fail("send on connection " + std::to_string(index));
      data += sent;
      left -= static_cast<std::size_t>(sent);
    }
  }

  std::uint32_t count_;
  int poll_ = -1;
  std::vector<agent> agents_;
  sockaddr_in address_{};
  std::uint32_t welcomed_ = 0;
  std::uint32_t assigned_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 10'000);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (count < 2 || rounds < 1 || limit.rlim_cur < count + 32) {
    std::fprintf(stderr,
                 "usage: rendezvous_benchmark [AGENTS [ROUNDS]], AGENTS below ulimit -n %lu\n",
                 static_cast<unsigned long>(limit.rlim_cur));
    return 2;
  }
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ddprun-rendezvous";
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    daemon_process daemon(program);
    load agents(daemon.port(), count);
    const auto begin = steady_clock::now();
    for (std::uint32_t index = 0; index + 1 < count; ++index) {
      agents.join(index);
      agents.pump(0ms);
    }
    while (agents.welcomed() + 1 < count)
      agents.pump(100ms);
    const auto joined = steady_clock::now();
    agents.dial(count - 1);
    const double cpu_before = daemon.cpu_ms();
    agents.join(count - 1);
    const auto last = steady_clock::now();
    while (agents.assigned() < count)
      agents.pump(100ms);
    const double took =
        std::chrono::duration<double, std::milli>(steady_clock::now() - last).count();
    times.push_back(took);
    std::printf(
        "%u agents: joins %.0f ms, last join -> last assignment %.1f ms; daemon: %.0f ms CPU "
        "for it, VmHWM %.1f MB\n",
        count, std::chrono::duration<double, std::milli>(joined - begin).count(), took,
        daemon.cpu_ms() - cpu_before, daemon.high_water_mb());
    std::fflush(stdout);
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "median %.1f ms, %.1f to %.1f ms over %d runs (promise for 10,000: at most 1000 ms)\n",
      times[times.size() / 2], times.front(), times.back(), rounds);
}
