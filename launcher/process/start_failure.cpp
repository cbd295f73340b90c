#include "launcher/process/start_failure.hpp"

#include <cerrno>
#include <cstring>

namespace ddprun::launcher {
namespace {

// A hint for cases in which errno alone is misleading.
std::string hint(const start_failure& failure) {
  if (failure.error == EMFILE) return "; raise the limit of open files (ulimit -Hn)";
  if (failure.stage == start_stage::fork && failure.error == EAGAIN) {
    return "; raise the limit of processes (ulimit -u, or a container's pids.max)";
  }
  // From close_range, or from a sandbox that answers like an old kernel.
  if (failure.error == ENOSYS) return "; ddprun needs Linux 5.9 or newer";
  if (failure.stage == start_stage::find) return "; looked in PATH";
  if (failure.stage != start_stage::exec) return {};
  if (failure.error == ENOENT && failure.program_is_there) {
    return "; the file is there, so the interpreter in its first line, or its loader, is not";
  }
  if (failure.error == ENOEXEC) return "; a script needs a first line like #!/bin/sh";
  if (failure.error == EACCES && !failure.program_may_execute) {
    return "; is it marked executable (chmod +x)?";
  }
  return {};
}

std::string_view verb(start_stage stage) {
  switch (stage) {
    case start_stage::find:
      return "cannot find ";
    case start_stage::exec:
      return "cannot execute ";
    default:
      return "cannot start ";
  }
}

}  // namespace

bool is_shortage(int error) {
  return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
}

std::string_view to_string(start_stage stage) {
  switch (stage) {
    case start_stage::find:
      return "find";
    case start_stage::descriptors:
      return "descriptors";
    case start_stage::fork:
      return "fork";
    case start_stage::session:
      return "session";
    case start_stage::death_signal:
      return "death signal";
    case start_stage::streams:
      return "streams";
    case start_stage::inheritance:
      return "inheritance";
    case start_stage::directory:
      return "directory";
    case start_stage::affinity:
      return "affinity";
    case start_stage::exec:
      return "exec";
    case start_stage::spare:
      return "spare";
  }
  return "unknown";
}

std::string start_failure::describe() const {
  std::string text(verb(stage));
  text += program;
  if (stage == start_stage::spare)
    return text + ": a spare worker that was to run it has ended before it began";
  if (stage == start_stage::directory) text += " in " + directory;
  text += ": ";
  text += std::strerror(error);
  text += hint(*this);
  text += " (stage: ";
  text += to_string(stage);
  return text + ")";
}

}  // namespace ddprun::launcher
