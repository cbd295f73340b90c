#include "launcher/agent/stop_file.hpp"

#include "launcher/warm/memory_file.hpp"
#include "launcher/warm/site_zip.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {

stop_file::stop_file() {
  auto made = warm::make_memory_file("ddprun-stop", "");
  if (!made) return;
  file_ = std::move(*made);
  path_ = warm::path_for_others(file_);
}

void stop_file::begin_round() {
  is_stopping_ = false;
  if (file_) [[maybe_unused]]
    const int result = ::ftruncate(file_.get(), 0);
}

void stop_file::stop(bool is_ordinary, duration grace) {
  is_stopping_ = true;
  is_ordinary_ = is_ordinary;
  killed_at_ = std::chrono::steady_clock::now() + grace;
  write();
}

void stop_file::rank_is_lost() {
  if (!is_stopping_ || !is_ordinary_) return;
  is_ordinary_ = false;
  write();
}

// Padded, so that each text replaces the one before it completely.
void stop_file::write() const {
  if (!file_) return;
  std::array<char, 64> text;
  const double seconds = std::chrono::duration<double>(killed_at_.time_since_epoch()).count();
  const int size = std::snprintf(text.data(), text.size(), "%s %-20.3f\n",
                                 is_ordinary_ ? "ordinary" : "failure ", seconds);
  [[maybe_unused]] const ssize_t written =
      ::pwrite(file_.get(), text.data(), static_cast<std::size_t>(size), 0);
}

}  // namespace ddprun::launcher
