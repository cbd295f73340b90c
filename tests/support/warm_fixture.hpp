// A warm_spawner whose zygote and spares are the test's own: it is given orders as Python is, and
// what it is sent can be read.
#pragma once

#include "launcher/warm/warm_spawner.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_spawner.hpp"
#include "tests/support/process_fixture.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun::tests {

// A fake_spawner that keeps the socket by which the zygote is given orders.
struct zygote_catcher final : spawner {
  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override {
    const bool is_zygote = !request.capture && request.program.ends_with("/python");
    if (is_zygote) control = unique_fd(::dup(request.standard_output));
    return fake.spawn(request, std::move(handlers));
  }
  bool adopt(pid_t pid, ended_handler ended) override {
    adopted.push_back(pid);
    return fake.adopt(pid, std::move(ended));
  }
  void signal_group(pid_t pid, int signal) override { fake.signal_group(pid, signal); }
  void reap(pid_t pid) override { fake.reap(pid); }
  bool reap_within(pid_t pid, duration limit) override { return fake.reap_within(pid, limit); }
  bool owns(pid_t pid) const override { return fake.owns(pid); }
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override {
    return fake.living_groups(groups);
  }

  fake_spawner fake;
  unique_fd control;
  std::vector<pid_t> adopted;
};

// A child that waits, as a spare does.
struct waiting_child {
  waiting_child() : pid(::fork()) {
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~waiting_child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  waiting_child(const waiting_child&) = delete;
  waiting_child& operator=(const waiting_child&) = delete;
  pid_t pid;
};

struct warm_fixture {
  explicit warm_fixture(warm::warm_options options = quick())
      : guard(base.io.get_executor(), under, {}, [](const std::string&) {}),
        warm(base.io.get_executor(), under, guard, *base.mux, std::move(options),
             [this](const std::string& line) { said.push_back(line); }) {
    ::signal(SIGPIPE, SIG_IGN);  // the guardian is none
  }

  static warm::warm_options quick() {
    warm::warm_options options;
    options.look_pause = options.look_pause_max = std::chrono::milliseconds(1);
    options.refill_pause = std::chrono::milliseconds(1);
    options.comparison.look_pause = std::chrono::milliseconds(1);
    options.comparison.lives_after = std::chrono::milliseconds(20);
    return options;
  }

  spawn_request worker(const std::string& local_rank = "0") const {
    spawn_request request;
    request.program = python;
    request.argv = {"python", "-u", "train.py"};
    request.environment = {"LOCAL_RANK=" + local_rank};
    return request;
  }

  spawn_handlers handlers() {
    spawn_handlers called;
    called.ended = [this](pid_t pid, exit_status) { warm.reap(pid); };
    return called;
  }

  pid_t start(const std::string& local_rank = "0") {
    const auto started = warm.spawn(worker(local_rank), handlers());
    REQUIRE(started.has_value());
    return started->pid;
  }

  void end(pid_t pid, exit_status status) {
    under.fake.end(pid, status);
    run_until([this] { return !under.fake.deliver(); });
  }

  void run_until(const std::function<bool()>& done) { base.run_until(done); }

  // The newest file of this name in memory that is open here.
  static int memory_file(const std::string& name) {
    int newest = -1;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const auto file = std::filesystem::read_symlink(entry.path(), error).string();
      if (!file.starts_with("/memfd:" + name)) continue;
      newest = std::max(newest, std::stoi(entry.path().filename()));
    }
    REQUIRE(newest >= 0);
    return newest;
  }

  static void import_modules(int count) {
    const int list = memory_file("ddprun-imports");
    for (int index = 0; index < count; ++index)
      REQUIRE(::write(list, "I json /usr/lib/python3/json.py\n", 32) == 32);
  }

  // As the zygote writes that it has imported this file.
  static void have_imported(const std::string& path) {
    struct stat found {};
    REQUIRE(::stat(path.c_str(), &found) == 0);
    const auto time = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
    const std::string text = "F " + std::to_string(time) + " " + std::to_string(found.st_size) +
                             " " + std::to_string(found.st_ino) + " " + path + '\0';
    REQUIRE(::write(memory_file("ddprun-files"), text.data(), text.size()) ==
            static_cast<ssize_t>(text.size()));
  }

  // A spare that has imported this file waits.
  void get_spare(const waiting_child& child, const std::string& path) {
    import_modules(1);
    get_spare_of_list(child, path);
  }
  void get_spare_of_list(const waiting_child& child, const std::string& path) {
    CHECK(order() == "load");
    have_imported(path);
    answer("ready 1 ");
    CHECK(order() == "spare");
    make_spare(child);
    run_until([this] { return warm.waiting() == 1; });
  }

  // What a spare is sent; nothing by now: empty.
  std::string sent_to_spare() const {
    const auto read = net::receive_packet(theirs.back().get());
    return read ? read->text : std::string();
  }

  // What the zygote is asked for.
  std::string order() {
    std::string heard;
    run_until([&] {
      if (!under.control) return false;
      auto read = net::receive_packet(under.control.get());
      if (read) heard = read->text;
      return !heard.empty();
    });
    return heard;
  }

  void answer(const std::string& text, const std::vector<int>& descriptors = {}) {
    REQUIRE_FALSE(net::send_packet(under.control.get(), text, descriptors));
  }

  void make_spare(const waiting_child& child) {
    auto sockets = net::make_packet_sockets();
    REQUIRE(sockets.has_value());
    answer("spare " + std::to_string(child.pid), {sockets->ours.get()});
    theirs.push_back(std::move(sockets->theirs));
    set_nonblocking(theirs.back().get());
  }

  // A worker that was started with a spare, which waits before.
  pid_t start_warm(const waiting_child& child) {
    start();
    import_modules(10);
    CHECK(order() == "load");
    answer("ready 10 ");
    CHECK(order() == "spare");
    make_spare(child);
    run_until([this] { return warm.waiting() == 1; });
    CHECK(start() == child.pid);
    return child.pid;
  }

  bool has_said(const std::string& words) const {
    return std::any_of(said.begin(), said.end(), [&words](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }

  std::string python = "/usr/bin/python";
  process_fixture base;
  zygote_catcher under;
  std::vector<std::string> said;
  std::vector<unique_fd> theirs;  // the spares' ends
  guardian guard;
  warm::warm_spawner warm;
};

constexpr exit_status failed_with(int code) {
  return {code, 0, false};
}

}  // namespace ddprun::tests
