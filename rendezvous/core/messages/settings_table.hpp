// The settings of a run, each told once: a field of `timers` or `run_settings`, and a row here.
//
// The rows give the options and --rdzv-conf, --help, the fields on the wire, what is compared
// between nodes, and the texts of refusals. The row of a timer says what it is for, as people read
// it. A new setting is a field and a row, in the order in which differences are looked for.
#pragma once

#include "rendezvous/core/messages/settings.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

namespace ddprun {

// A timer: NAME=SECONDS in --rdzv-conf, "NAME_us" in whole microseconds on the wire. A peer may
// send `min` to timer_max; a person may type whole milliseconds, and 0 only if `may_be_zero`.
struct timer_row {
  std::string_view name;
  duration timers::*field;
  std::string_view help;
  duration min{};  // a shorter one would make a machine spin
  bool may_be_zero = false;
  // Not compared between nodes: all of them take the first node's.
  bool is_of_first = false;
  // Its value if it is not given, from the rows above; null: as in a default `timers`.
  duration (*follows)(const timers&) = nullptr;
  // Why it is useless beside the others; empty: it is not. People are told; a machine copes.
  std::string (*contradiction)(const timers&) = nullptr;
};

// The functions for `contradiction`.
std::string slow_heartbeat(const timers& timing);
std::string long_grace(const timers& timing);
std::string useless_isolation(const timers& timing);
std::string long_settle(const timers& timing);
std::string early_refill(const timers& timing);

inline constexpr std::array timer_table = {
    timer_row{.name = "node_timeout",
              .field = &timers::node_timeout,
              .help = "a node that has been silent for this long is lost",
              .min = std::chrono::milliseconds(1)},
    timer_row{.name = "heartbeat_interval",
              .field = &timers::heartbeat_interval,
              .help = "between two heartbeats; node_timeout / 10, at most 1 s",
              .min = std::chrono::microseconds(100),
              .follows =
                  [](const timers& timing) {
                    return std::min<duration>(timing.node_timeout / 10, std::chrono::seconds(1));
                  },
              .contradiction = slow_heartbeat},
    timer_row{.name = "reconnect_grace",
              .field = &timers::reconnect_grace,
              .help = "from a broken connection until the node is lost; at most node_timeout",
              .min = std::chrono::milliseconds(1),
              .follows =
                  [](const timers& timing) {
                    return std::min<duration>(timing.node_timeout, std::chrono::seconds(2));
                  },
              .contradiction = long_grace},
    timer_row{.name = "isolation_limit",
              .field = &timers::isolation_limit,
              .help = "an unanswered node stops its workers; node_timeout - 2 heartbeats",
              .min = std::chrono::microseconds(200),
              .follows =
                  [](const timers& timing) {
                    return timing.node_timeout - 2 * timing.heartbeat_interval;
                  },
              .contradiction = useless_isolation},
    timer_row{.name = "failure_grace",
              .field = &timers::failure_grace,
              .help = "from a failure caused by a lost peer to the stop of all workers",
              .may_be_zero = true},
    timer_row{.name = "stop_grace",
              .field = &timers::stop_grace,
              .help = "from SIGTERM to SIGKILL after a failure"},
    timer_row{.name = "drain_grace",
              .field = &timers::drain_grace,
              .help = "from SIGTERM to SIGKILL when a node leaves the run",
              // torchrun does not compare --shutdown-timeout, whose variable may be set on one node
              // only; but the daemon has to know how long any node may take.
              .is_of_first = true},
    timer_row{.name = "kill_wait",
              .field = &timers::kill_wait,
              .help = "from SIGKILL to reporting that a worker cannot be killed"},
    timer_row{.name = "start_timeout",
              .field = &timers::start_timeout,
              .help = "how long all workers of a round may take to start"},
    timer_row{.name = "startup_window",
              .field = &timers::startup_window,
              .help = "a failure this soon after all workers have started is a quick one",
              .may_be_zero = true},
    timer_row{.name = "backoff_max",
              .field = &timers::backoff_max,
              .help = "longest pause between consecutive quick failures; 0: none",
              .may_be_zero = true},
    timer_row{.name = "restart_window",
              .field = &timers::restart_window,
              .help = "without a failure for this long, max-restarts starts over; 0: never",
              .may_be_zero = true,
              .contradiction = early_refill},
    timer_row{.name = "join_timeout",
              .field = &timers::join_timeout,
              .help = "how long nodes wait until enough of them are here"},
    timer_row{.name = "last_call_timeout",
              .field = &timers::last_call_timeout,
              .help = "how long the minimum number of nodes waits for more"},
    timer_row{.name = "settle",
              .field = &timers::settle,
              .help = "quiet time after a loss, before the next round; 0: none",
              .may_be_zero = true},
    timer_row{.name = "settle_max",
              .field = &timers::settle_max,
              .help = "upper limit of settle, however many more nodes are lost",
              .may_be_zero = true,
              .follows =
                  [](const timers& timing) { return std::max(timing.settle, timers().settle_max); },
              .contradiction = long_settle},
    timer_row{.name = "recovery_window",
              .field = &timers::recovery_window,
              .help = "how long a new daemon waits for the old one's nodes; node_timeout",
              .follows = [](const timers& timing) { return timing.node_timeout; }},
    timer_row{.name = "linger",
              .field = &timers::linger,
              .help = "how long the node with the daemon stays for the others at the end"},
    timer_row{.name = "orphan_limit",
              .field = &timers::orphan_limit,
              .help = "how long a round counts as alive while no node of it can be reached"},
};

// Timers for which `read(row, value)` sets those that are given; the others follow from them.
template <std::invocable<const timer_row&, duration&> Read>
timers read_timers(Read&& read) {
  timers timing;
  for (const timer_row& row : timer_table) {
    duration& value = timing.*row.field;
    if (row.follows != nullptr) value = row.follows(timing);
    read(row, value);
  }
  return timing;
}

// The first timer that is useless beside the others, as "settle 6 s is longer than settle_max 5 s";
// empty: none.
std::string contradiction_in(const timers& timing);

// What the rows of all settings tell people. In `help` {} stands for the default.
struct setting_text {
  std::string_view name;     // of the option
  bool in_torchrun = false;  // torchrun has this option, too
  std::string_view heading;  // under which --help shows it
  std::string_view help;
};

// N or MIN:MAX, from 1 to `max`.
struct range_row {
  setting_text words;
  std::string_view min_name;  // on the wire
  std::string_view max_name;
  std::uint32_t run_settings::*min_field;
  std::uint32_t run_settings::*max_field;
  std::uint32_t max;
};

// A number from 0 to `max`.
struct count_row {
  setting_text words;
  std::string_view wire_name;
  std::uint32_t run_settings::*field;
  std::uint32_t max;
  std::string_view counted;  // "the number of ... is"
};

// A word of an enumeration whose last value is `last`.
template <typename Word>
struct word_row {
  setting_text words;
  std::string_view wire_name;
  Word run_settings::*field;
  Word last;
  std::string_view typed;    // in --help
  std::string_view what;     // "... is no ... that this version knows"
  std::string_view choices;  // "write ..."
};

inline constexpr std::uint32_t restarts_limit = 1'000'000'000;

inline constexpr std::tuple setting_table = {
    range_row{.words = {.name = "nnodes",
                        .in_torchrun = true,
                        .heading = "Size",
                        .help = "number of nodes; MIN:MAX: starts with MIN, grows to MAX ({})"},
              .min_name = "nodes_min",
              .max_name = "nodes_max",
              .min_field = &run_settings::nodes_min,
              .max_field = &run_settings::nodes_max,
              .max = nodes_per_run_max},
    count_row{.words = {.name = "spares",
                        .heading = "Size",
                        .help = "extra nodes that may wait and replace others ({})"},
              .wire_name = "spares_max",
              .field = &run_settings::spares_max,
              .max = nodes_per_run_max,
              .counted = "spare nodes"},
    count_row{
        .words = {.name = "max-restarts",
                  .in_torchrun = true,
                  .heading = "Failures",
                  .help = "how often all workers are restarted after a failure, per run ({})"},
        .wire_name = "restarts_max",
        .field = &run_settings::restarts_max,
        .max = restarts_limit,
        .counted = "restarts"},
    count_row{.words = {.name = "max-quick-failures",
                        .heading = "Failures",
                        .help = "end the run when this many rounds in a row fail in the same way\n"
                                "within seconds of their start (startup_window); 0: never ({})"},
              .wire_name = "quick_failures_max",
              .field = &run_settings::quick_failures_max,
              .max = restarts_limit,
              .counted = "quick failures"},
    count_row{
        .words = {.name = "max-node-failures",
                  .heading = "Failures",
                  .help = "leave out a node whose workers were the first to fail this often,\n"
                          "if a spare or --nnodes allows it; 0: never ({})"},
        .wire_name = "node_failures_max",
        .field = &run_settings::node_failures_max,
        .max = restarts_limit,
        .counted = "failures of a node"},
    count_row{
        .words = {.name = "max-node-losses",
                  .heading = "Failures",
                  .help = "how many nodes may be lost within an hour before the run ends ({})"},
        .wire_name = "node_losses_max",
        .field = &run_settings::node_losses_max,
        .max = restarts_limit,
        .counted = "node losses in an hour"},
    word_row<store_mode>{
        .words = {.name = "store",
                  .heading = "Workers",
                  .help = "who serves TCPStore at MASTER_ADDR:MASTER_PORT: ddprun, or the\n"
                          "worker with rank 0 ({}; worker for a script with a tcp:// address\n"
                          "of its own whose PyTorch is older than 2.14)"},
        .wire_name = "store",
        .field = &run_settings::store,
        .last = store_mode::worker,
        .typed = "agent | worker",
        .what = "store mode",
        .choices = "agent (ddprun serves the workers' TCPStore) or worker (rank 0 does)"},
    word_row<join_policy>{
        .words = {.name = "on-join",
                  .heading = "Failures",
                  .help = "a node that joins a running job waits for the next round, or\n"
                          "starts one ({})"},
        .wire_name = "on_join",
        .field = &run_settings::on_join,
        .last = join_policy::restart,
        .typed = "wait | restart",
        .what = "join policy",
        .choices = "wait (new nodes wait for the next round) or restart"},
    word_row<rank_policy>{
        .words = {.name = "rank-policy",
                  .heading = "Rendezvous",
                  .help = "hint: --node-rank orders new nodes, and nodes that stay keep their\n"
                          "ranks; exact: it is the group rank, as with --master-addr ({})"},
        .wire_name = "rank_policy",
        .field = &run_settings::ranks,
        .last = rank_policy::exact,
        .typed = "hint | exact",
        .what = "rank policy",
        .choices = "hint (--node-rank is one) or exact (--node-rank is the group rank)"},
};

// Calls `visit` with each row of setting_table, in order.
template <typename Visit>
constexpr void for_each_setting(Visit&& visit) {
  std::apply([&](const auto&... rows) { (visit(rows), ...); }, setting_table);
}

// The value as a person would type it: "1:4", "3", "wait".
std::string value_text(const range_row& row, const run_settings& settings);
std::string value_text(const count_row& row, const run_settings& settings);
template <typename Word>
std::string value_text(const word_row<Word>& row, const run_settings& settings) {
  return std::string(to_string(settings.*row.field));
}

// Seconds as a person writes them in --rdzv-conf: "10", "0.5", "2.125".
std::string seconds_text(duration value);

}  // namespace ddprun
