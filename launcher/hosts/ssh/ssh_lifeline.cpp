#include "launcher/hosts/ssh/ssh_lifeline.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

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

// Does what the signal does by default. As an explicit handler it marks the time before the agent
// handles signals, which must differ from the time after it has stopped handling them.
void end_at_once(int number) {
  ::_exit(exit_code_of_signal(number));
}

// The head's message may come when the run is over and the agent, which has heard so from the
// daemon, is about to exit: the signal would then kill it before it has reported its end. A second
// listener keeps the signal from doing so. If the agent stops listening at that very moment, either
// order is fine.
class signal_sender {
 public:
  void send(int number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
    boost::system::error_code ignored;
    if (action.sa_handler != end_at_once) second_listener_.add(number, ignored);
    ::kill(::getpid(), number);
  }

 private:
  boost::asio::io_context context_;  // never run, so what the second one receives is dropped
  boost::asio::signal_set second_listener_{context_};
};

void obey(std::string_view line, signal_sender& sender) {
  if (!line.starts_with(signal_word)) return;
  line.remove_prefix(signal_word.size());
  const auto number = whole_number<int>(line);
  if (number && *number > 0 && *number < NSIG) sender.send(*number);
}

// Returns when the head is gone.
void listen_to_head(int from_head, signal_sender& sender) {
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
      obey(std::string_view(text).substr(0, end), sender);
      text.erase(0, end + 1);
    }
    if (text.size() > sizeof bytes) text.clear();  // no word of ours is that long
  }
}

}  // namespace

void hold_lifeline(unique_fd from_head, leaving_patience patience) {
  const signals_blocked blocked;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (!is_ignored(number)) std::signal(number, end_at_once);
  }
  try {
    std::thread([head = std::move(from_head), patience = std::move(patience)] {
      signal_sender sender;
      listen_to_head(head.get(), sender);
      ::kill(::getpid(), SIGTERM);
      std::this_thread::sleep_for(patience());
      ::kill(::getpid(), SIGKILL);
    }).detach();
  } catch (const std::system_error&) {
    ::kill(::getpid(), SIGTERM);  // an agent must not outlive its head
  }
}

}  // namespace ddprun::launcher::ssh
