#include "worker/snapshot/file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <memory>
#include <new>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun::worker {
namespace {

// Data is handed to the disk in portions of this size while the next portion is written, so that
// `finish` only waits for the last one.
constexpr std::size_t write_bytes_max = std::size_t{8} << 20;
constexpr std::size_t scan_bytes = std::size_t{1} << 20;

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

  // NFS and quotas report errors of earlier writes here.
  error_code close() {
    const int status = ::close(number_);
    number_ = -1;
    return status == 0 ? error_code{} : last_system_error();
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

class posix_output final : public output_file {
 public:
  explicit posix_output(int number) : file_(number) {}

  error_code write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t count =
          ::write(file_.number(), bytes.data(), std::min(bytes.size(), write_bytes_max));
      if (count < 0 && errno != EINTR) return last_system_error();
      if (count <= 0) continue;
      bytes.remove_prefix(static_cast<std::size_t>(count));
      unsynced_ += count;
      if (unsynced_ >= static_cast<off_t>(write_bytes_max)) {
        // Only a hint: errors of the file system or the disk are reported by fsync.
        (void)::sync_file_range(file_.number(), written_, unsynced_, SYNC_FILE_RANGE_WRITE);
        written_ += std::exchange(unsynced_, 0);
      }
    }
    return {};
  }

  error_code finish() override {
    if (::fsync(file_.number()) != 0) return last_system_error();
    return file_.close();
  }

 private:
  descriptor file_;
  off_t written_ = 0;  // handed to the disk
  off_t unsynced_ = 0;
};

class posix_mapping final : public mapped_file {
 public:
  posix_mapping(void* address, std::size_t size) : address_(address), size_(size) {}
  ~posix_mapping() override {
    if (size_ != 0) ::munmap(address_, size_);
  }
  posix_mapping(const posix_mapping&) = delete;
  posix_mapping& operator=(const posix_mapping&) = delete;
  std::string_view bytes() const override { return {static_cast<const char*>(address_), size_}; }

 private:
  void* address_;
  std::size_t size_;
};

result<std::string> read_bytes(int file, std::size_t size) {
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    return system_error(ENOMEM);
  }
  std::size_t have = 0;
  while (have < size) {
    const ssize_t count = ::read(file, bytes.data() + have, size - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_system_error();
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

// Opens a file and returns its length. O_NONBLOCK keeps a pipe from blocking until it has a writer.
error_code open_file(const std::string& path, std::optional<descriptor>& file, std::size_t& size) {
  file.emplace(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (!*file) return last_system_error();
  struct stat status {};
  if (::fstat(file->number(), &status) != 0) return last_system_error();
  if (!S_ISREG(status.st_mode)) return errc::not_found;
  size = static_cast<std::size_t>(status.st_size);
  return {};
}

// True if no other machine can change it. Other file systems (NFS, Lustre, FUSE...) may cache
// names.
bool is_local(const std::string& path) {
  constexpr std::uint32_t xfs = 0x58465342;   // fs/xfs/libxfs/xfs_format.h
  constexpr std::uint32_t f2fs = 0xF2F52010;  // include/linux/f2fs_fs.h
  constexpr std::uint32_t zfs = 0x2FC12FC1;   // openzfs, include/os/linux/zfs/sys/zfs_vfsops_os.h
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  switch (static_cast<std::uint32_t>(status.f_type)) {
    case EXT4_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case xfs:
    case f2fs:
    case zfs:
      return true;
    default:
      return false;
  }
}

bool is_same_file(const std::string& one, const std::string& other) {
  struct stat first {
  }, second{};
  if (::lstat(one.c_str(), &first) != 0 || ::lstat(other.c_str(), &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

class posix final : public file_system {
 public:
  error_code make_folder(const std::string& path, bool& made) override {
    made = ::mkdir(path.c_str(), 0777) == 0;
    if (made) return {};
    const error_code error = last_system_error();
    struct stat status {};
    // An existing folder is fine, whatever mkdir reports for it (a read-only file system EROFS, an
    // automounter EACCES).
    if (::stat(path.c_str(), &status) != 0) return error;
    if (!S_ISDIR(status.st_mode)) return system_error(ENOTDIR);
    return {};
  }

  result<std::unique_ptr<output_file>> create(const std::string& path) override {
    const int number = open_retrying(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (number < 0) return last_system_error();
    return std::unique_ptr<output_file>(std::make_unique<posix_output>(number));
  }

  // NFS supports link(), but not renameat2() with RENAME_NOREPLACE.
  error_code rename_to_new(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) == 0) {
      ::unlink(from.c_str());
      return {};
    }
    const int number = errno;
    // NFS repeats a request whose reply was lost, and the second one then finds the first one's
    // result.
    if (number == EEXIST && is_same_file(from, to)) {
      ::unlink(from.c_str());
      return {};
    }
    const bool has_no_links =
        number == EPERM || number == EOPNOTSUPP || number == ENOSYS || number == EMLINK;
    if (!has_no_links) return system_error(number);
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return last_system_error();
    return ::rename(from.c_str(), to.c_str()) == 0 ? error_code{} : last_system_error();
  }

  error_code remove(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? error_code{} : last_system_error();
  }

  error_code remove_folder(const std::string& path) override {
    return ::rmdir(path.c_str()) == 0 ? error_code{} : last_system_error();
  }

  error_code sync_folder(const std::string& path) override {
    descriptor folder(open_retrying(path, O_RDONLY | O_DIRECTORY));
    if (!folder) return last_system_error();
    // Some network file systems cannot sync a folder and return EINVAL, but their rename is
    // durable.
    if (::fsync(folder.number()) != 0 && errno != EINVAL) return last_system_error();
    return {};
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (!folder) return last_system_error();
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(folder.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return last_system_error();
    return names;
  }

  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    std::optional<descriptor> file;
    std::size_t size = 0;
    if (auto error = open_file(path, file, size)) return error;
    if (size > bytes_max) return make_error_code(errc::limit_reached);
    return read_bytes(file->number(), size);
  }

  error_code scan(const std::string& path, const piece_handler& on_piece) override {
    std::optional<descriptor> file;
    std::size_t size = 0;
    if (auto error = open_file(path, file, size)) return error;
    (void)::posix_fadvise(file->number(), 0, 0, POSIX_FADV_SEQUENTIAL);
    for (;;) {
      const auto piece = read_bytes(file->number(), scan_bytes);
      if (!piece) return piece.error();
      if (piece->empty()) return {};
      on_piece(*piece);
    }
  }

  result<std::unique_ptr<mapped_file>> map(const std::string& path) override {
    std::optional<descriptor> file;
    std::size_t size = 0;
    if (auto error = open_file(path, file, size)) return error;
    void* address = nullptr;
    if (size != 0) {
      address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->number(), 0);
      if (address == MAP_FAILED) return last_system_error();
    }
    return std::unique_ptr<mapped_file>(std::make_unique<posix_mapping>(address, size));
  }

  result<std::uint64_t> size(const std::string& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return last_system_error();
    if (!S_ISREG(status.st_mode)) return make_error_code(errc::not_found);
    return static_cast<std::uint64_t>(status.st_size);
  }

  // The folder may not exist yet: then its parent decides.
  std::chrono::milliseconds names_kept(const std::string& path) override {
    constexpr std::chrono::seconds nfs_acdirmax{60};
    const std::size_t slash = path.find_last_of('/');
    const std::string above = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    return is_local(path) || is_local(above) ? std::chrono::seconds(0) : nfs_acdirmax;
  }
  void pause(std::chrono::milliseconds length) override { std::this_thread::sleep_for(length); }
};

}  // namespace

file_system& posix_file_system() {
  static posix instance;
  return instance;
}

error_code write_whole(file_system& files, const std::string& path, std::string_view bytes) {
  auto file = files.create(path);
  if (!file) return file.error();
  if (auto error = (*file)->write(bytes)) return error;
  return (*file)->finish();
}

}  // namespace ddprun::worker
