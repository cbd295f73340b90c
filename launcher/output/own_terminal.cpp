#include "launcher/output/own_terminal.hpp"

#include <csignal>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {

std::optional<terminal_size> terminal_of_worker(pty_mode mode, std::uint32_t rank,
                                                const log_route& route,
                                                std::optional<terminal_size> own) {
  if (mode == pty_mode::off || rank != 0 || !own) return {};
  if (!route.is_shown || !route.file.empty()) return {};
  return beside_prefix(*own, route.prefix);
}

own_terminal::own_terminal(boost::asio::any_io_executor executor, std::function<void()> resized)
    : signals_(std::move(executor)), resized_(std::move(resized)) {}

std::optional<terminal_size> own_terminal::size_of(log::output_stream stream) {
  return size_of_terminal(stream == log::output_stream::output ? STDOUT_FILENO : STDERR_FILENO);
}

void own_terminal::lend() {
  termios now{};
  if (!modes_ && ::tcgetattr(STDIN_FILENO, &now) == 0) modes_ = now;
  if (std::exchange(is_watched_, true)) return;
  signals_.add(SIGWINCH);
  watch();
}

void own_terminal::take_back() {
  const auto before = std::exchange(modes_, std::nullopt);
  // From the background, the change would stop us (SIGTTOU).
  if (!before || ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &*before);
}

void own_terminal::watch() {
  signals_.async_wait([this](boost::system::error_code error, int) {
    if (error) return;
    watch();
    resized_();
  });
}

}  // namespace ddprun::launcher
