#include "launcher/evidence/kernel_wait.hpp"

#include "launcher/evidence/proc_files.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

// Calls whose first argument is an open file.
constexpr std::array calls_of_open_file = {
    SYS_read,   SYS_write,   SYS_pread64, SYS_pwrite64,  SYS_readv,     SYS_writev,
    SYS_preadv, SYS_pwritev, SYS_fsync,   SYS_fdatasync, SYS_ftruncate, SYS_fstat,
    SYS_close,  SYS_flock,   SYS_lseek,   SYS_fallocate, SYS_getdents64};

// Calls whose second argument is a path, as the libraries of today make them.
constexpr std::array calls_of_path = {SYS_openat,   SYS_newfstatat, SYS_statx,    SYS_mkdirat,
                                      SYS_unlinkat, SYS_faccessat,  SYS_renameat2};

#if defined(__x86_64__)
// The same with the path first.
constexpr std::array calls_of_path_alone = {SYS_open,   SYS_stat,   SYS_lstat,
                                            SYS_access, SYS_mkdir,  SYS_rmdir,
                                            SYS_rename, SYS_unlink, SYS_execve};
#else
constexpr std::array calls_of_path_alone = {SYS_execve};
#endif

constexpr std::size_t arguments_max = 2;

struct open_call {
  long number = -1;
  std::array<std::uint64_t, arguments_max> arguments{};
};

// "0 0x3 0x7eff3204c000 ...": the number, then the arguments; "running", or -1: it is in none.
std::optional<open_call> open_call_of(pid_t pid) {
  const std::string text = text_of_file(proc_path(pid, "syscall"));
  const char* at = text.c_str();
  char* end = nullptr;
  open_call found;
  found.number = std::strtol(at, &end, 10);
  if (end == at || found.number < 0) return std::nullopt;
  for (std::uint64_t& argument : found.arguments) {
    at = end;
    argument = std::strtoull(at, &end, 16);
    if (end == at) return std::nullopt;
  }
  return found;
}

bool is_any_of(const auto& calls, long number) {
  return std::any_of(calls.begin(), calls.end(), [number](long one) { return one == number; });
}

std::string target_of(const std::string& link) {
  std::string path(PATH_MAX, '\0');
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  path.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return path.starts_with('/') ? path : "";
}

// A text in its memory, to the end of that page and the next.
std::string text_at(pid_t pid, std::uint64_t address) {
  std::string text;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (int pages = 0; pages < 2; ++pages) {
    std::vector<char> bytes(page - address % page);
    const iovec here{bytes.data(), bytes.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const iovec there{reinterpret_cast<void*>(address), bytes.size()};
    const ssize_t size = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (size <= 0) return {};
    const auto end = std::find(bytes.begin(), bytes.begin() + size, '\0');
    text.append(bytes.begin(), end);
    if (end != bytes.begin() + size) return text;
    address += bytes.size();
  }
  return {};
}

}  // namespace

kernel_wait kernel_wait_of(pid_t pid) {
  kernel_wait found;
  found.channel = text_of_file(proc_path(pid, "wchan"));
  if (found.channel == "0") found.channel.clear();
  found.sleeps = sleeps_of(pid);
  return found;
}

std::string file_waited_for(pid_t pid) {
  const std::optional<open_call> call = open_call_of(pid);
  if (!call) return {};
  std::string path;
  if (is_any_of(calls_of_open_file, call->number)) {
    path = target_of(proc_path(pid, "fd/" + std::to_string(call->arguments[0])));
  } else if (is_any_of(calls_of_path, call->number)) {
    path = text_at(pid, call->arguments[1]);
  } else if (is_any_of(calls_of_path_alone, call->number)) {
    path = text_at(pid, call->arguments[0]);
  }
  return in_one_line(to_valid_utf8(path));
}

}  // namespace ddprun::launcher::evidence
