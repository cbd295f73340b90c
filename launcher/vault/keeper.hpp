// The keeper of a node's vault: a folder in memory that workers save to, whose newest complete
// entry it keeps on disk as well (vault_rules.hpp says what that is), and on another node.
//
//   prepare   before the workers of a round are started: all nodes take what each of them has, and
//             what is missing in memory is put back
//   save_now  a worker has died, or all are to end: the newest entry is copied at once
//   finish    at the end: the same, and the memory is given back
//
// The loop never waits for a disk: one thread prepares, another copies, a third sends copies to
// another node, and they are left behind where a disk hangs for `patience`. What goes wrong is a
// line, and training goes on.
//
// Thread rule: the main thread; handlers come from the executor, never from inside a call.
#pragma once

#include "launcher/cli/vault_options.hpp"
#include "launcher/process/background_task.hpp"
#include "launcher/vault/agreement.hpp"
#include "launcher/vault/desk.hpp"
#include "launcher/vault/preparation.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher::vault {

class keeper {
 public:
  struct wiring {
    vault_options wanted;
    std::string mark;                                           // of this agent alone
    std::function<std::optional<std::uint64_t>()> memory_left;  // of the node, in bytes; blocks
    desk::teller say;
    // So many bytes have been moved since `prepare`: from time to time, while that grows.
    std::function<void(std::uint64_t bytes)> restoring;
  };

  keeper(boost::asio::any_io_executor executor, wiring parts);
  ~keeper();
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;

  // `ready`: with the folder for workers; empty: there is none. Another call, or `give_up`, cancels
  // the one before.
  void prepare(const round_place& here, std::function<void(const std::string& folder)> ready);
  void give_up();
  // The round that was prepared last has failed.
  void round_failed() { has_failed_ = true; }
  void save_now();
  // `ends_well`: nobody needs the memory any more, whatever is on disk.
  void finish(bool ends_well, std::function<void()> done);

 private:
  void watch_preparation(std::uint64_t seen, int silent);
  void watch_end(std::uint64_t seen, int silent);
  void start_copying();

  boost::asio::any_io_executor executor_;
  std::shared_ptr<desk> desk_;
  std::shared_ptr<preparation> preparation_;
  background_task<std::string> preparing_;
  boost::asio::steady_timer patience_;
  std::function<void(const std::string& folder)> ready_;  // empty: nobody waits
  std::function<void(std::uint64_t bytes)> restoring_;
  std::uint64_t moved_before_ = 0;  // this preparation
  std::uint64_t moved_told_ = 0;
  std::function<void()> done_;
  bool has_failed_ = false;
  bool is_copying_ = false;
  lifetime alive_;
};

}  // namespace ddprun::launcher::vault
