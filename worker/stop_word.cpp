#include "worker/stop_word.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace ddprun::worker {
namespace {

constexpr double seconds_max = 1e9;

unique_fd open_stop_file() {
  const char* const path = std::getenv("DDPRUN_STOP");
  if (path == nullptr || *path == '\0') return {};
  return unique_fd(::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

}  // namespace

std::optional<stop_word> stop_word_in(std::string_view text) {
  stop_word said;
  said.is_ordinary = text.starts_with("ordinary ");
  if (!said.is_ordinary && !text.starts_with("failure ")) return std::nullopt;
  text.remove_prefix(text.find(' '));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || !(seconds >= 0 && seconds <= seconds_max)) return std::nullopt;
  said.killed_at =
      time_point(std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds)));
  return said;
}

std::optional<stop_word> read_stop_word() {
  const unique_fd file = open_stop_file();
  if (!file) return std::nullopt;
  std::array<char, 64> text;
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return stop_word_in({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace ddprun::worker
