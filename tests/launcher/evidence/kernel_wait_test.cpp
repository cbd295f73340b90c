// What /proc tells of a process that waits in the kernel, here in calls that a signal would end: it
// tells the same of those that none ends.
#include "launcher/evidence/kernel_wait.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

// A process that is in one call for ever.
class process_in_call {
 public:
  explicit process_in_call(const std::function<void()>& call) : pid_(fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    call();
    _exit(0);
  }
  ~process_in_call() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  process_in_call(const process_in_call&) = delete;
  process_in_call& operator=(const process_in_call&) = delete;

  // As soon as it waits for one.
  std::string awaited_file() const {
    const auto until = std::chrono::steady_clock::now() + tests::patience;
    std::string found;
    while (found.empty() && std::chrono::steady_clock::now() < until) {
      found = file_waited_for(pid_);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return found;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

bool may_read_memory() {
  char from = 'a';
  char to = 'b';
  const iovec here{&to, 1};
  const iovec there{&from, 1};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace

TEST_CASE("of a process that waits for a file it is told which, open or only named") {
  if (access("/proc/self/syscall", R_OK) != 0)
    return tests::skip("/proc does not tell here which call a process is in");
  const tests::temporary_folder folder;
  const std::string fifo = folder.path + "/a \x1b[2Jfifo";
  const std::string other = folder.path + "/other";  // that nobody has open
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(mkfifo(other.c_str(), 0600) == 0);
  char byte = 0;
  const process_in_call reads([&] {
    const int both_ends = open(fifo.c_str(), O_RDWR);
    while (read(both_ends, &byte, 1) != 0) {
    }
  });
  CHECK(reads.awaited_file() == folder.path + "/a fifo");
  if (!may_read_memory())
    return tests::skip("no memory of another process may be read here (seccomp)");
  const process_in_call opens([&] { open(other.c_str(), O_WRONLY); });
  CHECK(opens.awaited_file() == other);
}

TEST_CASE("a process that waits for no file has none, nor has one that is gone") {
  const process_in_call sleeps([] {
    for (;;)
      pause();
  });
  CHECK(file_waited_for(sleeps.pid()).empty());
  CHECK(file_waited_for(-1).empty());
  const kernel_wait gone = kernel_wait_of(-1);
  CHECK(gone.channel.empty());
  CHECK_FALSE(gone.sleeps);
}

}  // namespace ddprun::launcher::evidence
