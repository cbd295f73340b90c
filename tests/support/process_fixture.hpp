// What a test of real processes needs: an executor, a spawner, a writer to two files, and a loop
// that runs a group of workers to its end, with a generous limit.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/boost_spawner.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/log/writer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <variant>
#include <vector>

namespace ddprun::launcher {

inline constexpr std::chrono::seconds test_limit = tests::patience;

// The whole content of a file.
inline std::string content_of(int fd) {
  std::string text;
  char chunk[65536];
  ssize_t count;
  while ((count = ::pread(fd, chunk, sizeof(chunk), static_cast<off_t>(text.size()))) > 0) {
    text.append(chunk, static_cast<std::size_t>(count));
  }
  return text;
}

// True until the process has run its last instruction; an unreaped zombie has.
inline bool runs(pid_t pid) {
  for (const auto& entry : list_processes()) {
    if (entry.pid == pid) return !entry.dead;
  }
  return false;
}

struct process_fixture {
  process_fixture()
      : output_file(::memfd_create("output", MFD_CLOEXEC)),
        errors_file(::memfd_create("errors", MFD_CLOEXEC)),
        spawn(io.get_executor()),
        out(std::make_unique<log::writer>(
            log::writer::options{output_file.get(), errors_file.get()})),
        mux(std::make_unique<log_mux>(io.get_executor(), *out, files)) {}

  static std::vector<std::string> environment() {
    return {std::string("PATH=") + std::getenv("PATH")};
  }

  static worker_command shell(const std::string& script, std::uint32_t local_rank,
                              const std::string& prefix) {
    worker_command command;
    command.argv = {"sh", "-c", script};
    command.environment = environment();
    command.local_rank = local_rank;
    command.rank = local_rank;
    command.output.prefix = command.errors.prefix = prefix;
    return command;
  }

  // Runs the executor until `done` returns true. Fails the test at the limit.
  void run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + test_limit;
    io.restart();
    while (!done()) {
      if (std::chrono::steady_clock::now() >= deadline) {
        FAIL("nothing happened in the limit; " << (failure ? failure->describe() : ""));
      }
      // Run in slices, because `done` may depend on the writer's thread.
      if (io.run_one_for(std::chrono::milliseconds(5)) == 0) io.restart();
    }
  }

  // Starts a group without waiting for it.
  worker_group& start_group(std::vector<worker_command> commands,
                            worker_group::options options = {}) {
    worker_group::events events;
    events.all_started = [this] { all_started = true; };
    events.short_of = [this](const start_failure& why) { shortages.push_back(why); };
    events.ended = [this](const worker_end& end) { note_end(end); };
    events.all_ended = [this] { all_ended = true; };
    all_started = all_ended = false;
    ends.clear();
    not_started.clear();
    group = std::make_unique<worker_group>(io.get_executor(), spawn, *mux, guard, strays, options);
    group->start(std::move(commands), std::move(events));
    return *group;
  }

  void note_end(const worker_end& end) {
    if (end.was_started()) {
      ends[end.local_rank] = end;
    } else if (const auto* const why = std::get_if<start_failure>(&end.how)) {
      failure = *why;
    } else {
      not_started.push_back(end.local_rank);
    }
  }

  std::map<std::uint32_t, worker_end> run_group(std::vector<worker_command> commands,
                                                worker_group::options options = {}) {
    start_group(std::move(commands), options);
    run_until([this] { return all_ended; });
    return ends;
  }

  // Ends the writer, and returns everything that was written.
  std::string output() {
    REQUIRE(out->finish(test_limit));
    return content_of(output_file.get());
  }
  std::string errors() {
    REQUIRE(out->finish(test_limit));
    return content_of(errors_file.get());
  }

  boost::asio::io_context io{1};
  unique_fd output_file;
  unique_fd errors_file;
  boost_spawner spawn;
  std::unique_ptr<log::writer> out;
  log_files files;
  std::unique_ptr<log_mux> mux;
  guardian* guard = nullptr;
  stray_reaper* strays = nullptr;
  std::unique_ptr<worker_group> group;
  bool all_started = false;
  bool all_ended = false;
  std::optional<start_failure> failure;
  std::vector<start_failure> shortages;
  std::map<std::uint32_t, worker_end> ends;  // of those that were started
  std::vector<std::uint32_t> not_started;    // and not tried to
};

}  // namespace ddprun::launcher
