// A meeting of the nodes of `ddprun doctor --nnodes N`: they find each other in the TCPStore that a
// rendezvous daemon serves at its port, and leave there what they have to say. No other protocol is
// spoken for it.
//
// Keys, all below "ddprun-doctor/<run id>/": `generation` counts meetings, and below its number are
//   members          the tokens of those who came, a line each, in the order of their coming
//   card/<token>     node_card, as JSON
//   beat/<token>     a number that grows four times a second, as long as its node is there
//   roster           the tokens of those who take part, once that is settled; their order counts
//   done/<phase>     the indexes of those who have left a word for this phase, a line each
//   word/<phase>/<index>
//   left             how many have read all that they will read
// A node that finds a meeting whose members have gone begins the next generation, and so do all
// at the end. The last one to leave deletes the generation's keys: a standing daemon would keep
// them for ever.
//
// A node that says nothing for `silence_max` has gone: nobody waits for it any more.
//
// Thread rule: one thread; the beats are sent by one of its own, over a connection of its own.
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
  duration wait = std::chrono::seconds(60);  // for the others to come
  duration silence_max = std::chrono::seconds(6);
};

class meeting {
 public:
  explicit meeting(meeting_options options) : options_(std::move(options)) {}
  ~meeting() { stop_beating(); }
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  // Waits until all have come (of MIN:MAX that is MAX), or as many as there are when the time is
  // over. False: this node is
  // alone with `problem`, a sentence: the daemon is not reached, or others do not agree.
  bool join(const node_card& mine, std::string& problem);

  const std::vector<node_card>& cards() const { return cards_; }
  std::uint32_t own_index() const { return own_; }

  // Until all others that are still there are as far as this node, `limit` at most. By index, who
  // is.
  std::set<std::uint32_t> wait_for_others(const std::string& phase, duration limit);
  // Leaves `word`, and waits until all others that are still there have left theirs, `limit` at
  // most; by index, none for those that did not.
  std::vector<std::optional<std::string>> exchange(const std::string& phase,
                                                   const std::string& word, duration limit);

  // Why, of each that went: "says nothing any more".
  const std::map<std::uint32_t, std::string>& gone() const { return gone_; }
  // Of the store itself, when it has gone; empty: it is there.
  const std::string& problem() const { return problem_; }

  // Waits until all are ready to part, as whoever holds the daemon must, and ends the generation.
  void leave();

  // For a node that could not join and holds the daemon: waits until the others, which meet without
  // it, have ended their meeting or have gone.
  void outlast_others();

 private:
  // Of a beat: what it was, and since when.
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
  std::optional<worker::store_client> store_;  // with the generation's
  std::string generation_;
  std::string token_;
  std::vector<std::string> members_;      // as far as they are known
  std::map<std::string, node_card> met_;  // by token
  std::set<std::string> foreign_;         // tokens of those whose cards are not understood
  std::map<std::string, pulse> pulses_;   // by token
  std::vector<node_card> cards_;
  std::uint32_t own_ = 0;
  std::vector<std::string> words_;  // the keys of what was left here
  std::map<std::uint32_t, std::string> gone_;
  std::string problem_;
  std::thread beats_;
  std::atomic<bool> is_over_{false};
};

}  // namespace ddprun::launcher::doctor
