// The instance of a run that is on here, or was last: what is forgotten as a whole when the next
// one is opened.
#pragma once

#include "rendezvous/base/shared_list.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/closed_instances.hpp"
#include "rendezvous/core/run/restarts.hpp"
#include "rendezvous/core/run/run_record.hpp"
#include "rendezvous/core/run/waiting.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace ddprun::core {

// Of the newest round, for the record: how many nodes it had and which, and how long after this
// daemon none of its workers lives (run_record::gone_after).
struct placed_nodes {
  std::uint32_t count = 0;
  duration gone_after{};
  shared_list<std::string> names;
};

// How many of the newest reports are kept for those who ask.
inline constexpr std::size_t reports_max = 16;

struct current_instance {
  instance_id id = 0;  // none has been decided on: 0
  time_point opened_at{};
  std::optional<started_job> job;        // that opened it
  std::optional<run_settings> settings;  // from the first round on
  restart_budget budget;
  quick_failures quick;
  bool has_run_long = false;  // a round of it, or an earlier daemon's
  node_failures failing;
  bool is_found = false;    // the newest round is an earlier daemon's, and was not kept
  bool has_placed = false;  // somebody, in a round of this instance, or an earlier daemon has
  placed_nodes placed;
  assignment common;                // what all places of the newest round share
  leftovers left_behind;            // of the round that was left last
  std::optional<cause> last_cause;  // of the newest round that was charged
  std::string last_end;             // how the newest round ended, in words
  departures gone;                  // since the newest round that was running
  std::string refusal;              // the newest for its settings, since that round
  std::string taken_back;           // who was left out and is needed again, since that round
  std::string news;                 // of the newest round, for those who are in it
  std::string warning;
  struct {
    std::string place_name;
    std::string text;
  } unable;                           // the newest node that cannot start, and why
  duration lasted{};                  // the newest round, when its stop began
  std::optional<duration> quick_end;  // its end came so soon after its start
  std::deque<round_report> reports;   // of rounds that are over, the newest last
  // What is next after the newest, to be told once it is known whether anybody goes on.
  std::string untold_next;
  std::optional<cause> operator_stop;  // from then on no round follows
  std::optional<due_end> due;          // the same, by the record of an earlier daemon

  bool is_decided() const { return id != 0; }
};

}  // namespace ddprun::core
