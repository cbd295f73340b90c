#include "launcher/agent/signal_watch.hpp"

#include "launcher/process/guardian.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/signals.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <utility>

namespace ddprun::launcher {

signal_watch::signal_watch(boost::asio::any_io_executor executor, outside with)
    : executor_(executor), outside_(std::move(with)), signals_(executor) {}

void signal_watch::start() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // Under nohup the hang-up of the terminal is to be ignored.
    if (number == SIGHUP && is_ignored(number)) continue;
    signals_.add(number);
  }
  for (const int number : {SIGUSR1, SIGUSR2}) {
    if (!is_ignored(number)) signals_.add(number);
  }
  await();
}

void signal_watch::await() {
  signals_.async_wait(
      while_alive(alive_.watch(), [this](boost::system::error_code error, int number) {
        if (error) return;
        await();
        hear(number);
      }));
}

void signal_watch::hear(int signal) {
  const bool is_for_workers = signal == SIGUSR1 || signal == SIGUSR2;
  is_for_workers ? hear_user_signal(signal) : outside_.asked_to_end(signal);
}

void signal_watch::hear_user_signal(int signal) {
  if (!outside_.has_guardian()) return pass_on(signal);
  const auto heard = std::chrono::steady_clock::now();
  const auto timer = std::make_shared<boost::asio::steady_timer>(executor_, guardian_answer_limit);
  timer->async_wait(
      while_alive(alive_.watch(), [this, signal, heard, timer](boost::system::error_code) {
        if (outside_.has_left()) return;
        outside_.guardian_got(signal, heard) ? tell_spared(signal) : pass_on(signal);
      }));
}

// The workers have it already.
void signal_watch::tell_spared(int signal) const {
  std::vector<std::uint32_t> ranks;
  for (const worker_group::live_worker& one : outside_.living())
    ranks.push_back(one.rank);
  std::string text = signal_name(signal) + " was sent to every process of this node's job";
  if (!ranks.empty()) {
    text += ": it is not passed on to " + text_of_ranks(ranks) +
            (ranks.size() == 1 ? ", which has it already" : ", which have it already");
  }
  outside_.say(note_level::info, text);
}

// A batch system's message to the program ("the time is nearly over"), which ddprun itself does not
// use. A worker without a handler would die of it, and the job with it.
void signal_watch::pass_on(int signal) const {
  std::vector<std::uint32_t> reached, spared;
  for (const worker_group::live_worker& one : outside_.living())
    (outside_.pass_on(one.pid, signal) ? reached : spared).push_back(one.rank);
  const std::string name = signal_name(signal);
  if (reached.empty() && spared.empty()) {
    return outside_.say(note_level::warning, name + ": no worker is running here to pass it to");
  }
  if (!reached.empty())
    outside_.say(note_level::info, name + " is passed on to " + text_of_ranks(reached));
  if (!spared.empty()) {
    outside_.say(note_level::warning, name + " is not passed on to " + text_of_ranks(spared) +
                                          ": without a handler for it a worker would die");
  }
}

}  // namespace ddprun::launcher
