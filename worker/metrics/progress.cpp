#include "worker/metrics/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::size_t bar_width = 30;
constexpr std::size_t width_default = 80;
constexpr std::string_view clear_line = "\r\033[K";

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(2, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return width_default;
  return size.ws_col;
}

std::string time_left_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::min(seconds, 1e15) + 0.5);
  if (whole < 120) return std::to_string(whole) + " s";
  if (whole < 120 * 60) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h";
}

std::string rate_text(double rate) {
  char text[64];
  std::snprintf(text, sizeof text, rate < 10 ? "%.2f samples/s" : "%.0f samples/s", rate);
  return text;
}

}  // namespace

progress::progress(std::string title, std::uint64_t total, progress_options options)
    : title_(std::move(title)), total_(total), options_(std::move(options)) {
  if (!options_.write) {
    options_.write = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stderr);
      std::fflush(stderr);
    };
  }
  if (!options_.now) options_.now = [] { return std::chrono::steady_clock::now(); };
  if (!options_.is_terminal) options_.is_terminal = ::isatty(2) != 0;
  if (options_.width == 0) options_.width = terminal_width();
  start_ = options_.now();
}

double progress::samples_per_second() const {
  const double seconds = std::chrono::duration<double>(options_.now() - start_).count();
  return seconds <= 0 ? 0 : static_cast<double>(samples_) / seconds;
}

// " | 3 s left", extrapolated from the speed so far.
std::string progress::left() const {
  if (total_ == 0 || done_ == 0 || done_ >= total_) return "";
  const double seconds = std::chrono::duration<double>(options_.now() - start_).count();
  const double each = seconds / static_cast<double>(done_);
  return " | " + time_left_text(each * static_cast<double>(total_ - done_)) + " left";
}

std::string progress::line(bool is_last, std::string_view text) const {
  std::string made = title_;
  if (!is_last) made += " | step " + std::to_string(done_);
  if (!is_last && total_ != 0) made += " of " + std::to_string(total_);
  if (samples_ != 0) made += " | " + rate_text(samples_per_second());
  if (!is_last) made += left();
  if (!text.empty()) made += " | " + std::string(text);
  return made;
}

std::string progress::bar(std::string_view text) const {
  if (total_ == 0) return line(false, text);
  const std::uint64_t done = std::min(done_, total_);
  const auto filled =
      static_cast<std::size_t>(static_cast<double>(done) / static_cast<double>(total_) * bar_width);
  std::string drawn(filled, '=');
  if (filled < bar_width) drawn += '>';
  drawn.resize(bar_width, '.');
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d %%",
                static_cast<int>(static_cast<double>(done) / static_cast<double>(total_) * 100));
  std::string made = title_ + " [" + drawn + "] " + percent;
  if (samples_ != 0) made += " | " + rate_text(samples_per_second());
  made += left();
  if (!text.empty()) made += " | " + std::string(text);
  return made;
}

void progress::update(std::uint64_t done, std::uint64_t samples, std::string_view text) {
  done_ = done;
  samples_ = samples;
  const time_point now = options_.now();
  const bool draws = *options_.is_terminal;
  const auto interval = draws ? options_.bar_interval : options_.line_interval;
  // In a log the first line comes after one interval, so a short epoch has only its final line.
  if (now - shown_at_.value_or(draws ? start_ - interval : start_) < interval) return;
  shown_at_ = now;
  if (!draws) return options_.write(line(false, text) + "\n");
  // Cut it to the terminal's width: a line that wraps cannot be redrawn.
  options_.write(std::string(clear_line) + bar(text).substr(0, options_.width - 1));
}

void progress::finish(std::string_view text) {
  const std::string start = *options_.is_terminal && shown_at_ ? std::string(clear_line) : "";
  options_.write(start + line(true, text) + "\n");
}

}  // namespace ddprun::worker
