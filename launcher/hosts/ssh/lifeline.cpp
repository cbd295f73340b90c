#include "launcher/hosts/ssh/lifeline.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::string_view signal_word = "signal ";

void obey(std::string_view line) {
  if (!line.starts_with(signal_word)) return;
  line.remove_prefix(signal_word.size());
  const auto number = whole_number<int>(line);
  if (number && *number > 0 && *number < NSIG) ::kill(::getpid(), *number);
}

// Until the head is gone.
void listen_to_head(int from_head) {
  std::string text;
  while (true) {
    pollfd at{from_head, POLLIN, 0};
    const std::chrono::milliseconds silence = lifeline_silence;
    const int ready = ::poll(&at, 1, static_cast<int>(silence.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    char bytes[256];
    const ssize_t count = ::read(from_head, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      obey(std::string_view(text).substr(0, end));
      text.erase(0, end + 1);
    }
    if (text.size() > sizeof bytes) text.clear();  // no word of ours is so long
  }
}

}  // namespace

void hold_lifeline(unique_fd from_head, leaving_patience patience) {
  const signals_blocked blocked;
  try {
    std::thread([head = std::move(from_head), patience = std::move(patience)] {
      listen_to_head(head.get());
      ::kill(::getpid(), SIGTERM);
      std::this_thread::sleep_for(patience());
      ::kill(::getpid(), SIGKILL);
    }).detach();
  } catch (const std::system_error&) {
    ::kill(::getpid(), SIGTERM);  // an agent that would outlive its head is none
  }
}

}  // namespace ddprun::launcher::ssh
