#include "launcher/evidence/progress_files.hpp"

#include "launcher/warm/memory_file.hpp"
#include "launcher/warm/site_zip.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// Each worker needs a descriptor; on a node with more workers, none can report its progress.
constexpr std::uint32_t files_max = 256;
constexpr std::size_t number_bytes_max = 64;  // with white space around it
constexpr std::string_view done_word = "done";

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace

std::optional<said_step> step_in(std::string_view text) {
  said_step step;
  text = without_blanks(text);
  if (text.ends_with(done_word)) {
    step.is_done = true;
    text = without_blanks(text.substr(0, text.size() - done_word.size()));
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step.number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return step;
}

progress_files::progress_files(std::uint32_t worker_count) {
  if (worker_count > files_max) return;
  for (std::uint32_t index = 0; index < worker_count; ++index) {
    auto made = warm::make_memory_file("ddprun-progress", "");
    if (!made) {
      files_.clear();
      paths_.clear();
      return;
    }
    paths_.push_back(warm::path_for_others(*made));
    files_.push_back(std::move(*made));
  }
}

void progress_files::empty() {
  for (const unique_fd& file : files_)
    [[maybe_unused]] const int result = ::ftruncate(file.get(), 0);
}

std::optional<said_step> progress_files::step_of(std::uint32_t local_rank) const {
  if (local_rank >= files_.size()) return std::nullopt;
  std::array<char, number_bytes_max> text;
  const ssize_t size = ::pread(files_[local_rank].get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return step_in({text.data(), static_cast<std::size_t>(size)});
}

std::string progress_files::reached() const {
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  for (std::uint32_t index = 0; index < files_.size(); ++index) {
    const auto step = step_of(index);
    if (!step) continue;
    first = std::min(first.value_or(step->number), step->number);
    last = std::max(last, step->number);
  }
  if (!first) return {};
  if (*first == last) return "step " + std::to_string(last);
  return "steps " + std::to_string(*first) + " to " + std::to_string(last);
}

}  // namespace ddprun::launcher::evidence
