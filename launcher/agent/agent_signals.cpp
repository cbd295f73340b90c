// The agent's signals: some end its part in the run, others are passed on to the workers.
#include "launcher/agent/agent.hpp"
#include "launcher/survivors/spawner_chain.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/signals.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <csignal>
#include <memory>
#include <vector>

namespace ddprun::launcher {

void agent::watch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // Under nohup the hang-up of the terminal is to be ignored.
    if (number == SIGHUP && is_ignored(number)) continue;
    signals_.add(number);
  }
  for (const int number : {SIGUSR1, SIGUSR2}) {
    if (!is_ignored(number)) signals_.add(number);
  }
  await_signal();
}

void agent::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int number) {
    if (error) return;
    await_signal();
    if (number == SIGUSR1 || number == SIGUSR2) return hear_user_signal(number);
    was_signalled_ = true;
    // From here on only other agents are waited for.
    if (goodbye_said_) return context_.stop();
    if (exit_code_ && spawners_->kill_survivors()) return;
    if (machine_) return feed(core::signal_received{number});
    finder_->stop();
    exit_code_ =
        exit_code_of_signal(number);  // there is no machine yet, so there is nothing to stop
    why_it_left_ = core::leave_reason::drained;
    reporter_->tell_end_before_start(*exit_code_, "stopped by " + std::string(signal_name(number)));
    after_goodbye();
  });
}

// A batch system that signals every process of a job reaches the workers itself, before or after
// us, and they must not get the signal twice. It also reaches the guardian, which nobody signals
// who means ddprun alone.
void agent::hear_user_signal(int signal) {
  if (!guardian_.started()) return pass_on(signal);
  const auto heard = std::chrono::steady_clock::now();
  const auto timer = std::make_shared<boost::asio::steady_timer>(context_, guardian_answer_limit);
  timer->async_wait([this, signal, heard, timer](boost::system::error_code) {
    if (exit_code_) return;
    if (!guardian_.take_signal(signal, heard)) return pass_on(signal);
    std::vector<std::uint32_t> ranks;
    if (workers_) {
      for (const worker_group::live_worker& one : workers_->live())
        ranks.push_back(one.rank);
    }
    std::string text =
        std::string(signal_name(signal)) + " was sent to every process of this node's job";
    if (!ranks.empty()) {
      text += ": it is not passed on to " + text_of_ranks(ranks) +
              (ranks.size() == 1 ? ", which has it already" : ", which have it already");
    }
    say(note_level::info, text);
  });
}

// A batch system's message to the program ("the time is nearly over"), which ddprun itself does not
// use. A worker without a handler would die of it, and the job with it.
void agent::pass_on(int signal) {
  std::vector<std::uint32_t> reached, spared;
  if (workers_) {
    for (const worker_group::live_worker& one : workers_->live())
      (workers_->pass_on(one.pid, signal) ? reached : spared).push_back(one.rank);
  }
  const std::string name = signal_name(signal);
  if (reached.empty() && spared.empty()) {
    return say(note_level::warning, name + ": no worker is running here to pass it to");
  }
  if (!reached.empty()) say(note_level::info, name + " is passed on to " + text_of_ranks(reached));
  if (!spared.empty()) {
    say(note_level::warning, name + " is not passed on to " + text_of_ranks(spared) +
                                 ": without a handler for it a worker would die");
  }
}

}  // namespace ddprun::launcher
