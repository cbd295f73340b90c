#include "launcher/warm/private_files.hpp"

#include "launcher/base/write_all.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/private_folders.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::warm {
namespace {

std::string errno_text(const std::string& path, int number) {
  return path + ": " + system_error(number).message();
}

// Empty: only we can write to it.
std::string owner_problem(const std::string& path, const struct stat& found) {
  if (found.st_uid != ::geteuid()) return path + " belongs to another user";
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) return path + " may be written by other users";
  return {};
}

// Empty: the folder exists and is ours.
std::string problem_of_folder(const std::string& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) return errno_text(folder, errno);
  return owner_problem(folder, found);
}

}  // namespace

private_file read_private_file(const std::string& folder, const std::string& name,
                               std::size_t bytes_max) {
  private_file answer;
  const std::string path = folder + "/" + name;
  // O_NONBLOCK, because opening a FIFO without a writer would block.
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (errno != ENOENT && errno != ENOTDIR) answer.problem = errno_text(path, errno);
    return answer;
  }
  answer.problem = problem_of_folder(folder);
  struct stat found {};
  if (answer.problem.empty() && ::fstat(file.get(), &found) != 0)
    answer.problem = errno_text(path, errno);
  if (answer.problem.empty() && !S_ISREG(found.st_mode)) answer.problem = path + " is not a file";
  if (answer.problem.empty()) answer.problem = owner_problem(path, found);
  if (answer.problem.empty() && static_cast<std::size_t>(found.st_size) > bytes_max)
    answer.problem = path + " is too long";
  if (!answer.problem.empty()) return answer;
  std::string text(static_cast<std::size_t>(found.st_size), '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + read, text.size() - read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      answer.problem = errno_text(path, errno);
      return answer;
    }
    if (count == 0) break;
    read += static_cast<std::size_t>(count);
  }
  text.resize(read);
  answer.text = std::move(text);
  return answer;
}

std::string write_private_file(const std::string& folder, const std::string& name,
                               std::string_view text) {
  if (const error_code error = make_private_folders(folder, folder_owner::this_user))
    return folder + ": " + error.message();
  if (std::string problem = problem_of_folder(folder); !problem.empty()) return problem;
  std::string next = folder + "/" + name + ".XXXXXX";
  unique_fd file(::mkostemp(next.data(), O_CLOEXEC));
  if (!file) return errno_text(folder, errno);
  int error = write_all(file.get(), text);
  // A network file system may report only at close that the disk is full.
  if (::close(file.release()) != 0 && error == 0) error = errno;
  const std::string path = folder + "/" + name;
  if (error == 0 && ::rename(next.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(next.c_str());
  return errno_text(path, error);
}

}  // namespace ddprun::launcher::warm
