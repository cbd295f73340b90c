// A meeting of the nodes of `ddprun doctor --nnodes N`: they find each other in the TCPStore at a
// rendezvous daemon's port, and exchange their messages there. No other protocol is involved.
//
// Keys, all below "ddprun-doctor/<run id>/": `generation` counts meetings; below its number are
//   members          the tokens of the nodes, a line each, in order of arrival
//   card/<token>     node_card, as JSON
//   beat/<token>     a number that grows four times a second while its node is alive
//   roster           the tokens of the nodes that take part, once decided, in order
//   done/<phase>     the indexes of the nodes that are done with this phase, a line each
//   word/<phase>/<index>
//   left             how many nodes will read nothing more
// A node that finds a meeting whose members have gone starts the next generation, and so do all
// nodes at the end. The last one to leave deletes the generation's keys, which a long-running
// daemon would keep for ever.
//
// A node that is silent for `silence_max` counts as gone, and nobody waits for it any more.
//
// Thread rule: one thread; beats are sent by another thread over a connection of its own.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "rendezvous/cli/values.hpp"
#include "worker/store_client.hpp"

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::launcher::doctor {

struct meeting_options {
  cli::endpoint_address endpoint;
  std::string run_id = "none";
  cli::node_range nodes;
  duration wait = std::chrono::seconds(60);  // for the other nodes to come
  duration silence_max = std::chrono::seconds(6);
};

class meeting {
 public:
  explicit meeting(meeting_options options) : options_(std::move(options)) {}
  ~meeting() { stop_beating(); }
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  // Waits until all nodes have come (MAX of MIN:MAX), or takes those that are there when the time
  // is up. False: this node is alone, and `problem` says why in a sentence: the daemon is
  // unreachable, or others do not agree.
  bool join(const node_card& mine, std::string& problem);

  const std::vector<node_card>& cards() const { return cards_; }
  std::uint32_t own_index() const { return own_; }

  // Waits, up to `limit`, until all remaining nodes have reached this point. Returns the indexes of
  // those that have.
  std::set<std::uint32_t> wait_for_others(const std::string& phase, duration limit);
  // Leaves `word`, and waits, up to `limit`, until all remaining nodes have left theirs. By index;
  // empty for those that have not.
  std::vector<std::optional<std::string>> exchange(const std::string& phase,
                                                   const std::string& word, duration limit);

  // Why each lost node is gone: "says nothing any more".
  const std::map<std::uint32_t, std::string>& gone() const { return gone_; }
  // Why the store is gone; empty: it is there.
  const std::string& problem() const { return problem_; }

  // Waits until all are ready to part, as the node with the daemon must, and ends the generation.
  void leave();

  // For a node that could not join but runs the daemon: waits until the others, which meet without
  // it, have finished or gone.
  void outlast_others();

 private:
  // A node's last beat, and since when it is unchanged.
  struct pulse {
    std::string beat;
    time_point since;
    bool has_changed = false;
  };
  enum class gathering { goes_on, next_generation, settled, failed };

  bool connect(std::string& problem);
  bool enter(const node_card& mine);
  gathering look_round(const node_card& mine, time_point until, std::string& problem);
  gathering take_roster(std::string& problem);
  bool read_new_members();
  void feel_pulses(const std::vector<std::string>& tokens);
  const node_card* find_foreign(const std::vector<std::string>& tokens) const;
  bool is_silent(const std::string& token) const;
  void end_generation();
  void forget(worker::store_client keys);
  bool is_anybody_left();
  bool find_who_left(std::set<std::uint32_t>& missing, const std::string& phase);
  void start_beating();
  void stop_beating();
  bool is_lost(const error_code& error);

  meeting_options options_;
  std::optional<worker::store_client> all_;    // with the run's prefix
  std::optional<worker::store_client> store_;  // with the generation's prefix
  std::string generation_;
  std::string token_;
  std::vector<std::string> members_;      // as far as known
  std::map<std::string, node_card> met_;  // by token
  std::set<std::string> foreign_;         // nodes with cards of another version
  std::map<std::string, pulse> pulses_;   // by token
  std::vector<node_card> cards_;
  std::uint32_t own_ = 0;
  std::vector<std::string> words_;  // the keys of the messages that this node has left
  std::map<std::uint32_t, std::string> gone_;
  std::string problem_;
  std::thread beats_;
  std::atomic<bool> is_over_{false};
};

}  // namespace ddprun::launcher::doctor
