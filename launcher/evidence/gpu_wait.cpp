#include "launcher/evidence/gpu_wait.hpp"

#include "launcher/evidence/proc_files.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t source_bytes_max = 4 * 1024 * 1024;

// Methods of tensors, events, streams and work handles that return when the GPU is done.
constexpr std::array<std::string_view, 6> waiting_methods = {
    ".item()", ".tolist()", ".cpu()", ".numpy()", ".synchronize()", ".wait()"};
// Conversions of a tensor to a number. Only those of a plain name count, because any other argument
// may compute.
constexpr std::array<std::string_view, 3> waiting_functions = {"float(", "int(", "bool("};

constexpr std::array<std::string_view, 5> computing_libraries = {"torch.", "np.", "numpy.",
                                                                 "scipy.", "F."};

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

bool calls(std::string_view line, std::string_view function) {
  for (std::size_t at = line.find(function); at != std::string_view::npos;
       at = line.find(function, at + 1)) {
    std::size_t end = at + function.size();
    while (end < line.size() && is_of_name(line[end]))
      ++end;
    const bool is_name = end > at + function.size() && end < line.size() && line[end] == ')';
    if (is_name && (at == 0 || !is_of_name(line[at - 1]))) return true;
  }
  return false;
}

// Tells whether the text after `before` is an argument of one of these libraries' functions, which
// may compute for long: "u, s, v = torch.linalg.svd(cov". Python functions have frames of their
// own.
bool is_argument_of_library(std::string_view before) {
  int depth = 0;
  for (std::size_t at = before.size(); at-- > 0;) {
    if (before[at] == ')') ++depth;
    if (before[at] != '(' || --depth >= 0) continue;
    depth = 0;
    std::size_t begin = at;
    while (begin > 0 && is_of_name(before[begin - 1]))
      --begin;
    const std::string_view callee = before.substr(begin, at - begin);
    for (const std::string_view library : computing_libraries) {
      if (callee.starts_with(library)) return true;
    }
  }
  return false;
}

std::string text_of_source(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
  if (found.st_size <= 0 || static_cast<std::size_t>(found.st_size) > source_bytes_max) return {};
  std::string text(static_cast<std::size_t>(found.st_size), '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

}  // namespace

std::string line_in_source(pid_t pid, const stack_frame& frame) {
  // A relative path is relative to the worker's folder.
  const bool is_whole = frame.file.starts_with('/');
  const std::string text =
      text_of_source(is_whole ? frame.file : proc_path(pid, "cwd/" + frame.file));
  std::size_t at = 0;
  for (std::uint32_t line = 1; line < frame.line && at != std::string::npos; ++line) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  if (at >= text.size()) return {};
  return text.substr(at, text.find('\n', at) - at);
}

std::string gpu_wait_of(const std::vector<stack_frame>& stack, std::string_view line) {
  if (stack.empty()) return {};
  const stack_frame& innermost = stack.front();
  const auto is_in = [&](std::string_view folder) {
    return innermost.file.find(folder) != std::string::npos;
  };
  if (is_in("/torch/cuda/") && innermost.function == "synchronize") return innermost.function;
  // DistributedDataParallel synchronises with the GPU in `forward`, to read the times of earlier
  // steps.
  if (is_in("/torch/nn/parallel/")) return innermost.function;
  for (const std::string_view method : waiting_methods) {
    const std::size_t at = line.find(method);
    if (at != std::string_view::npos && !is_argument_of_library(line.substr(0, at)))
      return std::string(method);
  }
  for (const std::string_view function : waiting_functions) {
    if (calls(line, function)) return std::string(function) + ")";
  }
  return {};
}

}  // namespace ddprun::launcher::evidence
