#include "launcher/hosts/ssh/own_program.hpp"

#include <climits>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::size_t hash_digits = 64;

// The oldest C library that this program runs with: .cmake/OldGlibc.cmake's, else the build's own.
#ifdef DDPRUN_OLDEST_GLIBC
constexpr std::string_view glibc_needed = DDPRUN_OLDEST_GLIBC;
#else
#define DDPRUN_TEXT_OF(number) #number
#define DDPRUN_VERSION_TEXT(major, minor) DDPRUN_TEXT_OF(major) "." DDPRUN_TEXT_OF(minor)
constexpr std::string_view glibc_needed = DDPRUN_VERSION_TEXT(__GLIBC__, __GLIBC_MINOR__);
#endif

// The other hosts check it with the same program.
program_copy read_program() {
  program_copy copy;
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/exe";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  copy.bytes = std::move(bytes).str();
  std::FILE* const sum = ::popen(("sha256sum " + path).c_str(), "re");
  if (sum != nullptr) {
    char text[hash_digits + 1] = "";
    if (std::fgets(text, sizeof text, sum) != nullptr) copy.sha256 = text;
    ::pclose(sum);
  }
  if (copy.bytes.empty()) copy.problem = "this program's own file cannot be read";
  if (copy.sha256.size() != hash_digits) copy.problem = "there is no sha256sum on this host";
  return copy;
}

struct version_numbers {
  unsigned major = 0;
  unsigned minor = 0;
  auto operator<=>(const version_numbers&) const = default;
};

version_numbers numbers_of(std::string_view text) {
  version_numbers read;
  const char* const end = text.data() + text.size();
  const auto [point, error] = std::from_chars(text.data(), end, read.major);
  if (error == std::errc() && point != end) std::from_chars(point + 1, end, read.minor);
  return read;
}

}  // namespace

void own_program::read(handler done) {
  if (copy_) return done(*copy_);
  waiting_.push_back(std::move(done));
  if (waiting_.size() > 1) return;
  reading_.start(read_program, [this](std::optional<program_copy> copy) {
    if (!copy) copy = program_copy{{}, {}, "the system has no thread left"};
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
