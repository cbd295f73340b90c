// Makes snapshots, one at a time, on a thread of its own: each rank writes its file and tells
// rank 0, which makes it a snapshot once all have, and tells all how it went.
//
// Thread rule: one thread calls it, which is not its own.
#pragma once

#include "worker/deadline.hpp"
#include "worker/snapshot/history.hpp"
#include "worker/snapshot/rank_exchange.hpp"
#include "worker/snapshot/rank_file.hpp"
#include "worker/snapshot/rank_messages.hpp"
#include "worker/snapshot/vault_tier.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

namespace ddprun::worker {

// Of a failure: ranks have other replicated tensors than rank 0.
constexpr std::string_view what_to_do_about_a_difference =
    "mark those that only rank 0 has with is_rank_0s, or let rank 0 write everything (writers = 1)";

struct saver_options {
  file_system* files = nullptr;
  std::string folder;
  std::uint32_t rank = 0;
  message_handler on_message;
  vault_tier* vault = nullptr;  // for jobs that are for it
};

class saver {
 public:
  // What this rank writes.
  struct files {
    rank_file_layout layout;
    std::vector<std::uint32_t> replicated{0};  // ranks that write a share of what all have alike
    // The checksum of who writes what, the same on all ranks; 0 on all: not compared.
    std::uint64_t deal = 0;
    std::string index;                        // rank 0's; empty: none, as it writes all of that
    std::vector<std::function<void()>> late;  // bring what of the layout's bytes is still to come
    // For the vault: tensors that may differ between nodes, and the checksum of the others' names,
    // types and shapes, which all nodes must have alike; 0: not compared.
    std::vector<std::string> rank_0s;
    std::uint64_t descriptions = 0;
  };
  // Files to write, or why this rank has none.
  struct job {
    snapshot_info info;
    std::variant<files, failure> file;
    bool is_to_settle = false;  // what is copied late, on this rank or another one
    bool is_for_vault = false;  // a failure there is told, but is none of the job's
  };

  // With rank 0's history, and what the job has gone on from.
  saver(saver_options options, rank_exchange ranks, std::optional<snapshot_history> history,
        std::optional<snapshot_order> resumed);
  // Gives up what is under way, and waits for no other rank.
  ~saver();
  saver(const saver&) = delete;
  saver& operator=(const saver&) = delete;

  // The one before must be over. What the layout's tensors point to must stay until this one is.
  void begin(job next);
  // Until all that is late of the last one is brought, or will not be: it waits for no other rank
  // and no disk. True: that is still to be settled.
  bool wait_until_copied();
  // What was copied late was as it is now all the while, or why it was not: without that word it is
  // written, but becomes no snapshot. The first word counts.
  void settle_copy(const outcome_word& wrong);
  // What is late must be settled before.
  void wait();
  // Up to then. True: it is over. A copy that was over by then is settled, as one that is whole.
  bool wait_until(const deadline& until);
  // How the last one went, once: none that went well, or is not over. One that is final is told
  // again and again, and what is begun after it is not made.
  std::optional<failure> take_failure();
  // The last one that is there for all, in the folder or in the vault.
  std::optional<snapshot_order> saved() const;
  std::optional<snapshot_order> saved_in_vault() const;

  // Ends what is under way, without waiting for ranks that may be dead. No later one is made.
  // False: it is not over by then, for the disk does not answer.
  bool give_up(const deadline& until);

  // What was resumed has led to something. So it has with the first snapshot that is there.
  void trust_resumed();

 private:
  void run();
  void cancel();
  outcome_word wait_until_settled();
  void trust();
  void bring_late(job& next) const;
  std::optional<failure> make(const job& next);
  outcome_word settle(snapshot_order order, const std::string& topic, const std::string& what);
  // In saver_vault.cpp.
  std::optional<failure> make_in_vault(const job& next, const std::string& topic);
  outcome_word write_in_vault(const job& next);
  in_vaults_word of_all_ranks(const std::string& topic, const written_word& mine, bool has_rank_0s);
  void tell_of_vault(const outcome_word& outcome, snapshot_order order);
  void forget_before();
  static constexpr const char* whole_topic = "/whole";  // after that of a save in the vault
  written_word write(const job& next) const;
  error_code write_index(const std::string& place, const std::string& text) const;
  failure lost(const std::string& what) const;
  std::optional<failure> commit(const job& next, const std::string& topic);
  void tell_of_difference(const job& next, const std::vector<std::uint32_t>& ranks);
  std::string path(const snapshot_info& info) const;
  void take_back(const snapshot_info& info) const;

  saver_options options_;
  rank_exchange ranks_;
  std::uint64_t count_ = 0;     // of jobs: the same on all ranks
  bool was_for_vault_ = false;  // the one before
  bool is_vault_told_ = false;  // that nothing could be saved there
  std::optional<snapshot_history> history_;
  std::optional<snapshot_order> resumed_;  // until it is trusted
  std::set<snapshot_order> unsettled_;     // not saved, but may be there: the same on all ranks
  bool has_told_of_difference_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<job> next_;  // until it is over
  std::optional<failure> failure_;
  std::optional<snapshot_order> saved_;
  std::optional<snapshot_order> saved_in_vault_;
  bool is_copied_ = true;   // what is late of the next one
  bool is_settled_ = true;  // whether that is whole
  outcome_word wrong_copy_;
  bool is_to_trust_ = false;
  std::atomic<bool> is_cancelled_{false};
  bool is_over_ = false;
  std::thread thread_;  // the last one to be made: it uses all others
};

}  // namespace ddprun::worker
