#include "launcher/output/own_error_file.hpp"

#include "launcher/base/write_all.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// Returns 0 or errno. A pipe without a reader is not waited for.
int write_into(const std::string& path, const std::string& content, int how) {
  const int flags = O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | how;
  const unique_fd file(::open(path.c_str(), flags, 0666));
  if (file.get() < 0) return errno;
  return write_all(file.get(), content);
}

}  // namespace

std::string replace_file(const std::string& path, const std::string& content,
                         const std::string& mark) {
  struct stat facts {};
  const bool is_there = ::stat(path.c_str(), &facts) == 0;
  int problem = EEXIST;
  if (!is_there || S_ISREG(facts.st_mode)) {
    const std::string beside = path + "." + mark;
    problem = write_into(beside, content, O_CREAT | O_EXCL | O_NOFOLLOW);
    if (problem == 0 && ::rename(beside.c_str(), path.c_str()) != 0) problem = errno;
    if (problem != 0) ::unlink(beside.c_str());
  }
  // On a full disk, truncating would destroy the old content and write nothing.
  const bool is_full = problem == ENOSPC || problem == EDQUOT;
  if (problem != 0 && is_there && !is_full) problem = write_into(path, content, O_TRUNC);
  return problem == 0 ? "" : std::strerror(problem);
}

own_error_file::options own_error_file::wanted(const environment_map& environment,
                                               std::string mark) {
  options values;
  values.path = variable_or_empty(environment, "TORCHELASTIC_ERROR_FILE");
  values.mark = std::move(mark);
  return values;
}

own_error_file::own_error_file(boost::asio::any_io_executor executor, options values,
                               std::function<void(const std::string& line)> warn)
    : options_(std::move(values)), warn_(std::move(warn)), work_(executor), timer_(executor) {}

void own_error_file::write(std::string content) {
  if (!is_wanted() || is_writing_) return;
  is_writing_ = true;
  timer_.expires_after(options_.limit);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (!error && is_writing_) end("not done within " + to_text(options_.limit));
  }));
  work_.start(
      [path = options_.path, content = std::move(content), mark = options_.mark] {
        return replace_file(path, content, mark);
      },
      [this](std::optional<std::string> problem) { end(problem.value_or(std::strerror(EAGAIN))); });
}

void own_error_file::when_written(std::function<void()> then) {
  if (!is_writing_) return then();
  then_ = std::move(then);
}

void own_error_file::end(const std::string& problem) {
  work_.cancel();
  timer_.cancel();
  is_writing_ = false;
  if (!problem.empty()) {
    warn_("TORCHELASTIC_ERROR_FILE=" + options_.path + ": cannot be written: " + problem);
  }
  if (const auto then = std::exchange(then_, nullptr)) then();
}

}  // namespace ddprun::launcher
