// The keeper of a node's vault: a folder in memory to which workers save. The keeper also copies
// the newest complete entry (vault_rules.hpp defines it) to disk and to another node.
//
//   prepare   before the workers of a round start: all nodes agree on an entry, and what is
//             missing in memory is restored
//   save_now  a worker has died, or all are to end: the newest entry is copied at once
//   finish    at the end: the same, and the memory is freed
//
// The loop never waits for a disk: one thread prepares, another copies, a third sends copies to
// another node. A thread whose disk hangs for `patience` is left behind. Failures are printed as a
// line, and training goes on.
//
// Thread rule: the main thread; handlers are called from the executor, never from inside a call.
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
    std::string mark;                                           // unique to this agent
    std::function<std::optional<std::uint64_t>()> memory_left;  // of the node, in bytes; may block
    desk::teller say;
    // Reports the bytes moved since `prepare`, from time to time, while they grow.
    std::function<void(std::uint64_t bytes)> restoring;
  };

  keeper(boost::asio::any_io_executor executor, wiring parts);
  ~keeper();
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;

  // Calls `ready` with the folder for workers; empty: there is none. Another call, or `give_up`,
  // cancels the previous one.
  void prepare(const round_place& here, std::function<void(const std::string& folder)> ready);
  void give_up();
  // The round that was prepared last has failed.
  void round_failed() { has_failed_ = true; }
  void save_now();
  // `ends_well`: the memory is not needed any more, even if its entries are not on disk.
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
  std::function<void(const std::string& folder)> ready_;  // empty: no call of `prepare` is open
  std::function<void(std::uint64_t bytes)> restoring_;
  std::uint64_t moved_before_ = 0;  // before this preparation
  std::uint64_t moved_told_ = 0;
  std::function<void()> done_;
  bool has_failed_ = false;
  bool is_copying_ = false;
  lifetime alive_;
};

}  // namespace ddprun::launcher::vault
