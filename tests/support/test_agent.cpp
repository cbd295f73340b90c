// A small agent for tests of processes: workers, a guardian and a writer, but no rendezvous.
//
//   test_agent [--no-guardian] [--tell ADDRESS PORT BYTES] [--unless-refused] [--prefix]
//              [--drain-limit MS] [--output-limit MS] [--queue BYTES] [--late BYTES] SCRIPT...
//
// Runs each script with sh as one worker. Prints "guardian PID" and, when all are started, "worker
// PID" for each, then the workers' output. SIGTERM kills the workers. Exits with the code of the
// last worker that failed, or with 9 if it gave up on the reader of its output. Before that it
// prints "end: ..." on standard error for each worker, with what was lost of its output.
#include "launcher/process/boost_spawner.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/guardian_process.hpp"
#include "launcher/process/stray_reaper.hpp"
#include "launcher/process/worker_group.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

struct arguments {
  bool guarded = true;
  bool prefixed = false;
  std::string address, bytes;
  std::uint16_t port = 0;
  ddprun::launcher::tell_terms terms;
  std::chrono::milliseconds drain_limit{2000};
  std::chrono::milliseconds output_limit{60'000};
  ddprun::log::writer::options streams;
  std::vector<std::string> scripts;
};

arguments parse(int argc, char** argv) {
  arguments result;
  for (int index = 1; index < argc; ++index) {
    const std::string word = argv[index];
    if (word == "--no-guardian") {
      result.guarded = false;
    } else if (word == "--unless-refused") {
      result.terms.unless_refused = true;
    } else if (word == "--prefix") {
      result.prefixed = true;
    } else if (word == "--drain-limit" && index + 1 < argc) {
      result.drain_limit = std::chrono::milliseconds(std::atoi(argv[++index]));
    } else if (word == "--output-limit" && index + 1 < argc) {
      result.output_limit = std::chrono::milliseconds(std::atoi(argv[++index]));
    } else if (word == "--queue" && index + 1 < argc) {
      result.streams.queue_bytes = static_cast<std::size_t>(std::atoi(argv[++index]));
    } else if (word == "--late" && index + 1 < argc) {
      result.streams.late_bytes = static_cast<std::size_t>(std::atoi(argv[++index]));
    } else if (word == "--tell" && index + 3 < argc) {
      result.address = argv[++index];
      result.port = static_cast<std::uint16_t>(std::atoi(argv[++index]));
      result.bytes = argv[++index];
    } else {
      result.scripts.push_back(word);
    }
  }
  return result;
}

std::string session_mark() {
  return "DDPRUN_SESSION=test-" + std::to_string(::getpid());
}

std::vector<ddprun::launcher::worker_command> to_commands(const arguments& given) {
  std::vector<ddprun::launcher::worker_command> commands;
  for (const auto& script : given.scripts) {
    ddprun::launcher::worker_command command;
    command.argv = {"sh", "-c", script};
    command.environment = {std::string("PATH=") + std::getenv("PATH"), session_mark()};
    command.local_rank = command.rank = static_cast<std::uint32_t>(commands.size());
    if (given.prefixed) {
      command.output.prefix = "[node:" + std::to_string(commands.size()) + "] ";
      command.errors.prefix = command.output.prefix;
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ddprun;
  using namespace ddprun::launcher;
  become_guardian_if_asked(argc, argv);
  ensure_standard_descriptors();
  const arguments given = parse(argc, argv);
  guardian_process forked;
  if (given.guarded) forked = start_guardian();

  boost::asio::io_context io(1);
  boost_spawner spawn(io.get_executor());
  log::writer out(given.streams);
  log_files files;
  log_mux mux(io.get_executor(), out, files);
  stray_reaper strays(io.get_executor(), spawn);
  std::unique_ptr<guardian> guard;
  if (given.guarded) {
    const auto print = [&] {
      out.push(log::output_stream::output, "guardian " + std::to_string(guard->pid()) + "\n");
    };
    const auto say = [&, print](const std::string& line) {
      out.say(line + "\n");
      boost::asio::post(io, print);  // the new guardian's pid, once it exists
    };
    guard = std::make_unique<guardian>(io.get_executor(), spawn, std::move(forked), say);
    guard->mark(session_mark());
    guard->cgroup(strays.cgroup_path());
    if (!given.bytes.empty()) guard->tell(given.address, given.port, given.bytes, given.terms);
    print();
  }

  int code = 0;
  worker_group group(io.get_executor(), spawn, mux, guard.get(), &strays,
                     worker_group::options{given.drain_limit});
  worker_group::events events;
  events.all_started = [&] {
    for (const auto& one : group.live()) {
      out.push(log::output_stream::output, "worker " + std::to_string(one.pid) + "\n");
    }
  };
  events.ended = [&](const worker_end& end) {
    if (const auto* const failure = std::get_if<start_failure>(&end.how)) {
      out.say(failure->describe() + "\n");
      code = 1;
    }
    if (!end.was_started()) return;
    const exit_status& how = end.status();
    out.say("end: " + std::to_string(end.local_rank) + " " + how.describe() +
            (end.lost.none() ? "" : ", lost " + end.lost.describe()) + "\n");
    if (!how.success()) code = how.signal != 0 ? 128 + how.signal : how.code;
  };
  events.all_ended = [&] { io.stop(); };
  boost::asio::signal_set terminate(io, SIGTERM);
  terminate.async_wait([&](boost::system::error_code error, int) {
    if (!error) group.kill();
  });
  group.start(to_commands(given), std::move(events));

  io.run();
  if (guard) guard->farewell();
  return out.finish(given.output_limit) ? code : 9;
}
