#include "launcher/hosts/ssh/own_program.hpp"

#include "launcher/base/text.hpp"
#include "launcher/cli/check_files.hpp"
#include "launcher/process/program_answer.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <climits>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::size_t hash_digits = 64;
constexpr auto hash_limit = std::chrono::seconds(30);

// The oldest C library that this program runs with: set by .cmake/OldGlibc.cmake, else that of the
// build.
#ifdef DDPRUN_OLDEST_GLIBC
constexpr std::string_view glibc_needed = DDPRUN_OLDEST_GLIBC;
#else
#define DDPRUN_TEXT_OF(number) #number
#define DDPRUN_VERSION_TEXT(major, minor) DDPRUN_TEXT_OF(major) "." DDPRUN_TEXT_OF(minor)
constexpr std::string_view glibc_needed = DDPRUN_VERSION_TEXT(__GLIBC__, __GLIBC_MINOR__);
#endif

// sha256sum, because the other hosts check the copy with the same program.
std::string hash_of(const std::string& path) {
  const environment_map own = environment_from(environ);
  // The answer is one line: "HASH  PATH".
  std::string sum = program_answer({"sha256sum", path}, own, hash_limit, hash_digits);
  sum.resize(std::min(sum.find(' '), sum.size()));
  return sum.size() == hash_digits ? sum : std::string();
}

std::optional<program_copy::file> read_file(const std::string& name, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  if (!file || file.bad() || bytes.tellp() <= 0) return {};
  return program_copy::file{name, std::move(bytes).str(), hash_of(path)};
}

program_copy read_program() {
  program_copy copy;
  // By /proc, because this works even if the file was replaced or deleted since the start.
  auto own = read_file("ddprun", "/proc/" + std::to_string(::getpid()) + "/exe");
  if (!own) {
    copy.problem = "this program's own file cannot be read";
    return copy;
  }
  copy.files.push_back(std::move(*own));
  // Optional: if this host has no helper, the others do without it, too.
  if (auto helper = read_file("ddprun-nccl-id", nccl_helper_program()))
    copy.files.push_back(std::move(*helper));
  for (const program_copy::file& each : copy.files) {
    if (each.sha256.empty()) copy.problem = "there is no sha256sum on this host";
  }
  return copy;
}

struct version_numbers {
  unsigned major = 0;
  unsigned minor = 0;
  auto operator<=>(const version_numbers&) const = default;
};

version_numbers numbers_of(std::string_view text) {
  version_numbers read;
  const std::vector<std::string_view> parts = split(text, '.');
  read.major = leading_number<unsigned>(parts[0]).value_or(0);
  if (parts.size() > 1) read.minor = leading_number<unsigned>(parts[1]).value_or(0);
  return read;
}

}  // namespace

void own_program::read(handler done) {
  if (copy_) return done(*copy_);
  waiting_.push_back(std::move(done));
  // One read serves all that ask meanwhile.
  if (waiting_.size() > 1) return;
  reading_.start(read_program, [this](std::optional<program_copy> copy) {
    if (!copy) copy = program_copy{{}, "the system has no thread left"};
    copy_ = std::move(copy);
    for (const handler& each : std::exchange(waiting_, {}))
      each(*copy_);
  });
}

std::string own_program_path() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || size == sizeof path) return {};
  return {path, static_cast<std::size_t>(size)};
}

std::string why_it_cannot_run(std::string_view machine, std::string_view glibc) {
  utsname own{};
  ::uname(&own);
  if (machine != own.machine) {
    return "it is of another architecture (" + std::string(machine) + ", here " + own.machine + ")";
  }
  constexpr std::string_view name = "glibc ";
  if (!glibc.starts_with(name)) return "its C library is not glibc";
  const std::string_view there = glibc.substr(name.size());
  if (numbers_of(there) >= numbers_of(glibc_needed)) return {};
  return "its glibc " + std::string(there) + " is too old: this one needs " +
         std::string(glibc_needed);
}

}  // namespace ddprun::launcher::ssh
