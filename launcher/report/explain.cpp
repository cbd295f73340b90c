#include "launcher/report/explain.hpp"

#include "launcher/report/saved_log.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

constexpr const char* usage =
    "usage: ddprun explain FILE... | -\n\n"
    "Says why a job failed, from its saved log: of ddprun, torchrun, srun or kubectl; - is "
    "standard\n"
    "input. Several files, such as one per node or per rank, are read as one job's.\n"
    "Exit code: 0; 1 when nothing in it looks like a failure; 2 when a FILE cannot be read.\n";
constexpr std::size_t line_bytes_kept = 64 * 1024;

// Returns 0 or errno. Lines that are too long are cut.
int read_lines(int fd, saved_log& log) {
  std::string line;
  std::string buffer(256 * 1024, '\0');
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      line += part.substr(0, line_bytes_kept - std::min(line.size(), line_bytes_kept));
      if (end == std::string_view::npos) break;
      log.add(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
  }
  if (!line.empty()) log.add(line);
  return 0;
}

}  // namespace

int explain(std::span<const char* const> files) {
  if (files.empty()) {
    std::fputs(usage, stderr);
    return usage_exit_code;
  }
  if (const std::string_view word(files.front()); word == "--help" || word == "-h") {
    std::fputs(usage, stdout);
    return 0;
  }
  saved_log log;
  for (const char* const file : files) {
    const bool is_input = std::string_view(file) == "-";
    if (files.size() > 1) log.begin_file(is_input ? "standard input" : file);
    const unique_fd opened(is_input ? ::dup(STDIN_FILENO) : ::open(file, O_RDONLY | O_CLOEXEC));
    const int problem = opened ? read_lines(opened.get(), log) : errno;
    if (problem != 0) {
      std::fprintf(stderr, "ddprun explain: %s cannot be read: %s\n", file, std::strerror(problem));
      return usage_exit_code;
    }
  }
  const auto lines = log.explain();
  for (const std::string& line : lines)
    std::printf("%s\n", line.c_str());
  if (!lines.empty()) return 0;
  std::printf(
      "nothing in these %llu lines looks like a failure: no exception, no known "
      "message\n",
      static_cast<unsigned long long>(log.lines()));
  return failed_exit_code;
}

}  // namespace ddprun::launcher
