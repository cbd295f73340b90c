// The worker of the restart benchmark. In the first attempt rank WORLD_SIZE - 1 waits until all
// ranks have started, notes the time and exits with 3; the others wait to be stopped. In the second
// attempt all note the time and exit with 0. Notes are lines "<attempt> <rank> <start|exit> <ns>"
// in the file named by the first argument, on the monotonic clock of this host.
//
// It runs under any launcher that sets RANK, WORLD_SIZE and TORCHELASTIC_RESTART_COUNT.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace {

const char* need(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    std::fprintf(stderr, "restart_worker: %s is not set\n", name);
    std::exit(2);
  }
  return value;
}

void note(const char* file, const char* attempt, const char* rank, const char* what) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[128];
  const int length = std::snprintf(line, sizeof line, "%s %s %s %lld\n", attempt, rank, what,
                                   now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  const int handle = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (handle < 0 || write(handle, line, static_cast<std::size_t>(length)) != length) std::exit(2);
  close(handle);
}

int starts(const char* file) {
  int count = 0;
  if (std::FILE* handle = std::fopen(file, "re")) {
    char line[128];
    while (std::fgets(line, sizeof line, handle) != nullptr) {
      if (std::strstr(line, " start ") != nullptr) ++count;
    }
    std::fclose(handle);
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: restart_worker FILE\n");
    return 2;
  }
  const char* attempt = need("TORCHELASTIC_RESTART_COUNT");
  const char* rank = need("RANK");
  const int world = std::atoi(need("WORLD_SIZE"));
  note(argv[1], attempt, rank, "start");
  // torchrun counts restarts for each node separately, so this counts starts, which is portable.
  if (std::strcmp(attempt, "0") != 0 || starts(argv[1]) > world) return 0;
  if (std::atoi(rank) != world - 1) {
    while (true)
      pause();
  }
  while (starts(argv[1]) < world)
    usleep(1000);
  usleep(200'000);  // let the launchers become idle
  note(argv[1], attempt, rank, "exit");
  return 3;
}
