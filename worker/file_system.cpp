#include "worker/file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <new>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::size_t write_bytes_max = std::size_t{1} << 30;  // the kernel stops at 2 GiB

error_code last_error() {
  return {errno, boost::system::system_category()};
}

class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  // NFS and quotas report the errors of earlier writes here.
  error_code close() {
    const int status = ::close(number_);
    number_ = -1;
    return status == 0 ? error_code{} : last_error();
  }

 private:
  int number_;
};

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  int number = -1;
  do {
    number = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (number < 0 && errno == EINTR);
  return number;
}

error_code write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), std::min(bytes.size(), write_bytes_max));
    if (count < 0 && errno != EINTR) return last_error();
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

result<std::string> read_bytes(int file, std::size_t size) {
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    return error_code(ENOMEM, boost::system::system_category());
  }
  std::size_t have = 0;
  while (have < size) {
    const ssize_t count = ::read(file, bytes.data() + have, size - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_error();
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

// Opens it, and says how long it is. A pipe of that name must not keep us waiting for a writer.
error_code open_file(const std::string& path, std::optional<descriptor>& file, std::size_t& size) {
  file.emplace(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (!*file) return last_error();
  struct stat status {};
  if (::fstat(file->number(), &status) != 0) return last_error();
  if (!S_ISREG(status.st_mode)) return errc::not_found;
  size = static_cast<std::size_t>(status.st_size);
  return {};
}

class posix final : public file_system {
 public:
  error_code make_folder(const std::string& path, bool& made) override {
    made = ::mkdir(path.c_str(), 0777) == 0;
    if (made) return {};
    const error_code error = last_error();
    struct stat status {};
    // What is there already is fine, whatever mkdir says of it (a read-only file system says EROFS
    // for some, an automounter EACCES).
    if (::stat(path.c_str(), &status) != 0) return error;
    if (!S_ISDIR(status.st_mode)) return {ENOTDIR, boost::system::system_category()};
    return {};
  }

  error_code write_new(const std::string& path,
                       const std::vector<std::string_view>& parts) override {
    descriptor file(open_retrying(path, O_WRONLY | O_CREAT | O_EXCL, 0666));
    if (!file) return last_error();
    for (const auto part : parts) {
      if (auto error = write_all(file.number(), part)) return error;
    }
    if (::fsync(file.number()) != 0) return last_error();
    return file.close();
  }

  error_code rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? error_code{} : last_error();
  }

  error_code remove(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? error_code{} : last_error();
  }

  error_code sync_folder(const std::string& path) override {
    descriptor folder(open_retrying(path, O_RDONLY | O_DIRECTORY));
    if (!folder) return last_error();
    // Some network file systems cannot sync a folder and say EINVAL; their rename is durable.
    if (::fsync(folder.number()) != 0 && errno != EINVAL) return last_error();
    return {};
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (!folder) return last_error();
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(folder.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return last_error();
    return names;
  }

  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    std::optional<descriptor> file;
    std::size_t size = 0;
    if (auto error = open_file(path, file, size)) return error;
    if (size > bytes_max) return make_error_code(errc::limit_reached);
    return read_bytes(file->number(), size);
  }

  result<file_head> read_head(const std::string& path, std::size_t bytes_max) override {
    std::optional<descriptor> file;
    std::size_t size = 0;
    if (auto error = open_file(path, file, size)) return error;
    auto bytes = read_bytes(file->number(), std::min(size, bytes_max));
    if (!bytes) return bytes.error();
    return file_head{std::move(*bytes), size};
  }
};

}  // namespace

file_system& posix_file_system() {
  static posix instance;
  return instance;
}

}  // namespace ddprun::worker
