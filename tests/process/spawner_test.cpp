// One real child: what it inherits, how its end is reported, and what is reported if it cannot
// start.
#include "tests/support/catch.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>

using namespace ddprun;
using namespace ddprun::launcher;
using tests::temporary_folder;

namespace {

spawn_request request_for(const std::string& script) {
  spawn_request request;
  request.program = "/bin/sh";
  request.argv = {"sh", "-c", script};
  request.environment = process_fixture::environment();
  return request;
}

spawn_handlers on_end(std::function<void(pid_t, exit_status)> ended) {
  spawn_handlers handlers;
  handlers.ended = std::move(ended);
  handlers.failed = [](const start_failure& why) { FAIL(why.describe()); };
  return handlers;
}

// Spawns, waits for the end and reaps.
exit_status run(process_fixture& fixture, const spawn_request& request,
                std::string* output = nullptr) {
  std::optional<exit_status> ended;
  auto started =
      fixture.spawn.spawn(request, on_end([&](pid_t, exit_status status) { ended = status; }));
  if (!started) FAIL(started.error().describe());
  CHECK(fixture.spawn.owns(started->pid));
  fixture.run_until([&] { return ended.has_value(); });
  char text[4096];
  ssize_t count;
  while (output != nullptr && (count = ::read(started->output.get(), text, sizeof(text))) > 0) {
    output->append(text, static_cast<std::size_t>(count));
  }
  fixture.spawn.reap(started->pid);
  CHECK(!fixture.spawn.owns(started->pid));
  CHECK(fixture.spawn.living_groups({started->pid}).empty());
  return *ended;
}

std::string output_of(const std::string& script) {
  process_fixture fixture;
  std::string output;
  CHECK(run(fixture, request_for(script), &output).success());
  return output;
}

start_failure failure_of(const spawn_request& request) {
  process_fixture fixture;
  std::optional<start_failure> failure;
  spawn_handlers handlers;
  handlers.executed = [] { FAIL("it started"); };
  handlers.failed = [&](const start_failure& why) { failure = why; };
  handlers.ended = [](pid_t, exit_status) { FAIL("it ended"); };
  REQUIRE(fixture.spawn.spawn(request, std::move(handlers)).has_value());
  fixture.run_until([&] { return failure.has_value(); });
  // No child is left at all.
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  return *failure;
}

// Does what a sandbox does, for the calling thread and what it starts.
bool forbid_system_call(long number, int error) {
  sock_filter rules[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<__u32>(number)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<__u32>(error)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{4, rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace

TEST_CASE("a worker's descriptors are exactly 0, 1 and 2") {
  // Descriptors of every kind that Asio and others leave open over an exec.
  const unique_fd open_socket(::socket(AF_INET, SOCK_STREAM, 0));
  const unique_fd open_file(::open("/dev/null", O_RDONLY));
  CHECK(output_of("cd /proc/self/fd; for fd in *; do [ -e $fd ] && echo $fd; done; :") ==
        "0\n1\n2\n");
}

TEST_CASE("a worker runs on the processors that it is given, and not at all on others") {
  cpu_set_t allowed;
  REQUIRE(::sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &allowed))
    --last;
  spawn_request request = request_for("grep Cpus_allowed_list /proc/self/status");
  request.processors = {last};
  std::string output;
  {
    process_fixture fixture;
    CHECK(run(fixture, request, &output).success());
  }
  CHECK(output == "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
  request.processors = {1'000'000};
  const start_failure failure = failure_of(request);
  CHECK(failure.stage == start_stage::affinity);
  CHECK(failure.describe() == "cannot start sh: Invalid argument (stage: affinity)");
}

TEST_CASE("a worker has no signal blocked, caught or ignored by us") {
  ::signal(SIGPIPE, SIG_IGN);
  // A shell starts its background jobs with these signals ignored, possibly including this program.
  const auto interrupt = ::signal(SIGINT, SIG_DFL);
  const auto quit = ::signal(SIGQUIT, SIG_DFL);
  const auto hang_up = ::signal(SIGHUP, SIG_DFL);
  struct sigaction caught {};
  caught.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &caught, nullptr);
  // A program that changes nothing itself reads it, because the shell and grep install handlers of
  // their own.
  const std::string status = output_of("exec cat /proc/self/status");
  for (const std::string kind : {"SigBlk", "SigIgn", "SigCgt"}) {
    CHECK(status.find(kind + ":\t0000000000000000\n") != std::string::npos);
  }
  ::signal(SIGUSR1, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGINT, interrupt);
  ::signal(SIGQUIT, quit);
  ::signal(SIGHUP, hang_up);
}

TEST_CASE("a worker leads its own session, and what nohup ignores stays ignored") {
  CHECK(output_of("set -- $(cat /proc/$$/stat); [ $5 = $$ ] && [ $6 = $$ ] && echo leads") ==
        "leads\n");
  ::signal(SIGHUP, SIG_IGN);
  // Other signals may be ignored here already: a shell's background jobs ignore SIGINT and SIGQUIT.
  const std::string ignored = output_of("sed -n 's/^SigIgn:\t//p' /proc/self/status");
  CHECK((std::stoull(ignored, nullptr, 16) & 1) == 1);
  ::signal(SIGHUP, SIG_DFL);
}

TEST_CASE("an exit code and a signal of the same number are told apart") {
  process_fixture fixture;
  CHECK(run(fixture, request_for("exit 9")) == exit_status{9, 0, false});
  CHECK(run(fixture, request_for("kill -9 $$")) == exit_status{0, 9, false});
  CHECK(run(fixture, request_for("exit 137")).describe() == "exit code 137");
  CHECK(run(fixture, request_for("kill -TERM $$")).describe() == "killed by SIGTERM");
  CHECK(run(fixture, request_for("exit 255")).code == 255);
}

TEST_CASE("without clone3, or with an older one, children start all the same") {
  const int refusal = GENERATE(ENOSYS, EINVAL);
  bool is_forbidden = false;
  exit_status status;
  std::string signals;
  std::thread([&] {
    process_fixture fixture;  // starts threads, for which glibc needs it, too
    is_forbidden = forbid_system_call(SYS_clone3, refusal);
    status = run(fixture, request_for("cat /proc/self/status; exit 7"), &signals);
  }).join();
  CHECK(is_forbidden);
  CHECK(status == exit_status{7, 0, false});
  CHECK(signals.find("SigCgt:\t0000000000000000\n") != std::string::npos);
}

TEST_CASE("where a cgroup is none, a child starts in ours") {
  const unique_fd folder(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  process_fixture fixture;
  spawn_request request = request_for("exit 7");
  request.cgroup = folder.get();
  CHECK(run(fixture, request) == exit_status{7, 0, false});
}

TEST_CASE("a signal reaches a child in whatever state it is") {
  process_fixture fixture;
  for (int turn = 0; turn < 100; ++turn) {
    std::optional<exit_status> ended;
    auto started = fixture.spawn.spawn(request_for("exec sleep 1000"),
                                       on_end([&](pid_t, exit_status status) { ended = status; }));
    REQUIRE(started.has_value());
    if (turn % 2 != 0) std::this_thread::yield();
    const int signal = turn % 4 < 2 ? SIGKILL : SIGTERM;
    fixture.spawn.signal_group(started->pid, signal);
    fixture.run_until([&] { return ended.has_value(); });
    CHECK(ended->signal == signal);
    fixture.spawn.reap(started->pid);
  }
}

TEST_CASE("a child stays a zombie, and its number ours, until it is reaped") {
  process_fixture fixture;
  bool ended = false;
  auto started =
      fixture.spawn.spawn(request_for("exit 0"), on_end([&](pid_t, exit_status) { ended = true; }));
  REQUIRE(started.has_value());
  fixture.run_until([&] { return ended; });
  CHECK(::kill(started->pid, 0) == 0);
  fixture.spawn.reap(started->pid);
  CHECK(::kill(started->pid, 0) == -1);
}

TEST_CASE("a program that cannot be executed is named with stage and reason") {
  const temporary_folder folder;
  spawn_request request;
  request.argv = {folder.file("train", "#!/bin/sh\n", 0644)};
  start_failure failure = failure_of(request);
  CHECK(failure.stage == start_stage::exec);
  CHECK(failure.error == EACCES);
  CHECK(failure.describe() == "cannot execute " + request.argv[0] +
                                  ": Permission denied; is it marked executable (chmod +x)? "
                                  "(stage: exec)");

  request.argv = {folder.file("script", "#!/no/such/python\n", 0755)};
  failure = failure_of(request);
  CHECK(failure.error == ENOENT);
  CHECK(failure.describe().find("interpreter in its first line") != std::string::npos);

  request.argv = {folder.file("text", "no first line\n", 0755)};
  failure = failure_of(request);
  CHECK(failure.error == ENOEXEC);
  CHECK(failure.describe().find("#!/bin/sh") != std::string::npos);
}

TEST_CASE("a folder that cannot be entered is the stage directory") {
  spawn_request request = request_for("exit 0");
  request.directory = "/no/such/folder";
  CHECK(failure_of(request).describe() ==
        "cannot start sh in /no/such/folder: No such file or directory (stage: directory)");
}

TEST_CASE("without descriptors left nothing starts, at any number of them, and nothing leaks") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  process_fixture fixture;
  // The lowest free numbers are contiguous from here.
  const int next = ::dup(0);
  ::close(next);
  int failures = 0;
  for (int left = 0; left < 24; ++left) {
    const rlimit tight{static_cast<rlim_t>(next + left), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
    std::optional<exit_status> ended;
    auto started = fixture.spawn.spawn(request_for("exit 0"),
                                       on_end([&](pid_t, exit_status status) { ended = status; }));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    if (started) {
      fixture.run_until([&] { return ended.has_value(); });
      fixture.spawn.reap(started->pid);
    } else {
      ++failures;
      CHECK(started.error().stage == start_stage::descriptors);
      CHECK(started.error().error == EMFILE);
    }
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  }
  CHECK(failures > 5);
  CHECK(failures < 20);
  const int after = ::dup(0);
  ::close(after);
  CHECK(after <= next + 4);  // what Asio opened for its first descriptor
}

TEST_CASE("a guardian that has died does not take the worker with it that announces itself") {
  process_fixture fixture;
  auto pipe = make_pipe();
  REQUIRE(pipe.has_value());
  pipe->read.reset();
  spawn_request request = request_for("exit 0");
  request.announce_to = pipe->write.get();
  const exit_status status = run(fixture, request);
  INFO(status.describe());
  CHECK(status.success());
}
