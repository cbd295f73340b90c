#include "worker/metrics/metrics_file.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <unistd.h>

namespace ddprun::worker {
namespace {

using json = nlohmann::ordered_json;

// Seconds since 1970, rounded down to milliseconds.
double wall_time() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) /
         1000;
}

}  // namespace

struct metrics_file::descriptor {
  unique_fd file;
};

error_code metrics_file::append(std::string_view line) {
  const std::string text = (is_cut_ ? "\n" : "") + std::string(line);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t count = ::write(file_->file.get(), left.data(), left.size());
    if (count < 0 && errno != EINTR) return last_system_error();
    if (count <= 0) continue;
    left.remove_prefix(static_cast<std::size_t>(count));
    is_cut_ = !left.empty() && text[text.size() - left.size() - 1] != '\n';
  }
  return {};
}

result<metrics_file> metrics_file::open(const std::string& path, const environment& here,
                                        std::uint64_t step) {
  unique_fd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!opened) return last_system_error();
  const off_t end = ::lseek(opened.get(), 0, SEEK_END);
  char last = '\n';
  if (end > 0 && ::pread(opened.get(), &last, 1, end - 1) != 1) return last_system_error();
  // The last start may have been killed in the middle of a line: begin a new one then.
  metrics_file made(std::make_shared<descriptor>(descriptor{std::move(opened)}), path);
  made.is_cut_ = last != '\n';
  const json line{{"event", "start"},
                  {"time", wall_time()},
                  {"round", here.round},
                  {"restart", here.restart_count},
                  {"world_size", here.world_size},
                  {"step", step}};
  if (auto error = made.append(line.dump() + "\n")) return error;
  return made;
}

error_code metrics_file::write(std::uint64_t epoch, std::uint64_t step,
                               std::span<const number> numbers) {
  json line{{"time", wall_time()}, {"epoch", epoch}, {"step", step}};
  for (const auto& [name, value] : numbers)
    line[std::string(name)] = std::isfinite(value) ? json(value) : json();
  return append(line.dump() + "\n");
}

}  // namespace ddprun::worker
