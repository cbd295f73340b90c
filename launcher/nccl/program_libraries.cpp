#include "launcher/nccl/program_libraries.hpp"

#include "launcher/process/find_program.hpp"
#include "launcher/process/program_answer.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <climits>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {
namespace {

// Enough for a program with hundreds of libraries on a slow file system.
constexpr std::chrono::seconds limit{10};
constexpr std::size_t list_bytes_max = 1 << 20;
constexpr std::size_t segments_max = 1024;

bool read_at(int file, std::uint64_t offset, void* to, std::size_t size) {
  return ::pread(file, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

bool is_path_of(std::string_view path, std::string_view library) {
  return path.starts_with('/') && path.substr(path.rfind('/') + 1) == library;
}

}  // namespace

// A line is "libnccl.so.2 => /path/libnccl.so.2 (0x7f...)", or "/path/libnccl.so.2 (0x7f...)" if
// the program or LD_PRELOAD names a path.
std::string library_in_list(std::string_view list, std::string_view library) {
  while (!list.empty()) {
    std::string_view line = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(line.size() + 1, list.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    line = line.substr(0, line.rfind(" (0x"));
    const std::size_t arrow = line.find(" => ");
    const std::string_view name = line.substr(0, arrow);
    const std::string_view path = arrow == std::string_view::npos ? name : line.substr(arrow + 4);
    if (path.starts_with('/') && (name == library || is_path_of(name, library)))
      return std::string(path);
  }
  return {};
}

std::string loader_of(const std::string& program) {
  const unique_fd file(::open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  ElfW(Ehdr) header{};
  if (!file || !read_at(file.get(), 0, &header, sizeof header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum > segments_max) return {};
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!read_at(file.get(), header.e_phoff, segments.data(), segments.size() * sizeof(ElfW(Phdr))))
    return {};
  for (const auto& segment : segments) {
    if (segment.p_type != PT_INTERP || segment.p_filesz > PATH_MAX) continue;
    std::string path(segment.p_filesz, '\0');
    if (!read_at(file.get(), segment.p_offset, path.data(), path.size())) return {};
    return path.c_str();  // ends at its zero byte
  }
  return {};
}

std::string library_of_program(const std::string& program, std::string_view library,
                               const environment_map& environment) {
  const auto path = find_program(program, to_entries(environment));
  if (!path) return {};
  const std::string loader = loader_of(*path);
  if (loader.empty()) return {};
  return library_in_list(
      program_answer({loader, "--list", *path}, environment, limit, list_bytes_max), library);
}

}  // namespace ddprun::launcher
