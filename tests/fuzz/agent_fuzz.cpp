// The agent's machine gets any messages from a lying daemon, a lying leader and lying members,
// while its workers start and end.
//
// Whatever it gets, workers of only one round live at a time, what it sends can be decoded, it has
// no effects after it has left, and it does not ask for ever to be stepped at the same moment.
//
// The input is a sequence of steps: a byte for the kind, then what that kind reads.
#include "rendezvous/core/agent/agent_machine.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/fuzz/input.hpp"

#include <array>
#include <limits>
#include <string>

namespace {

using namespace ddprun;
using ddprun::fuzz::input;

constexpr std::size_t steps_max = 400;
constexpr std::size_t looks_max = 100;  // in a row, at one moment
constexpr std::uint32_t worker_count = 2;

class play {
 public:
  explicit play(input from) : from_(from), machine_(options()) {
    core::agent_effects effects;
    machine_.start(now_, effects);
    carry_out(effects);
  }

  void run() {
    for (std::size_t step = 0; step < steps_max && !from_.empty() && !left_; ++step)
      this->step(from_.below(20));
  }

 private:
  static core::agent_options options() {
    core::agent_options made;
    made.greeting.run_id = "fuzz";
    made.greeting.session = {7, 1};
    made.greeting.node = "node";
    made.greeting.worker_count = worker_count;
    made.endpoints = {"10.0.0.1:29400"};
    made.seed = 5;
    return made;
  }

  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 8> special{0,
                                                   std::numeric_limits<std::uint64_t>::max(),
                                                   std::numeric_limits<std::uint32_t>::max(),
                                                   std::numeric_limits<std::int64_t>::max(),
                                                   count_max,
                                                   count_max + 1,
                                                   nodes_per_run_max,
                                                   42};
    const std::size_t choice = from_.byte();
    if (choice < special.size()) return special[choice];
    return choice < 128 ? choice % 4 : choice;
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  duration time() {
    const auto count = static_cast<std::int64_t>(number());
    if (from_.below(2) == 0) return duration(count);
    constexpr std::int64_t most = duration::max().count() / 1'000'000'000;
    return std::chrono::seconds(std::clamp(count, -most, most));
  }
  // Mostly the current round.
  round_number round() { return from_.below(8) == 0 ? number() : machine_.round(); }

  void step(std::size_t kind);
  void hear(std::size_t kind);
  desired order();
  void end_worker();
  void tell(const core::agent_event& event);
  void say(daemon_message message) {
    tell(core::daemon_said{std::make_shared<const daemon_message>(std::move(message))});
  }
  void carry_out(const core::agent_effects& effects);
  void check_text(const agent_message& message);
  void pass(duration by);

  input from_;
  time_point now_{std::chrono::hours(1000)};
  core::agent machine_;
  std::uint64_t seq_ = 0;       // of its newest status
  std::uint64_t beat_ = 0;      // and of its newest beat
  std::uint64_t said_seq_ = 0;  // of the daemon's messages
  std::array<bool, worker_count> lives_{};
  round_number living_round_ = 0;
  bool left_ = false;
};

desired play::order() {
  desired value;
  const bool lies = from_.below(8) == 0;
  value.epoch = lies ? number() : 0;
  value.instance = from_.below(16) == 0 ? number() : 42;
  value.round = lies ? number() : machine_.round() + from_.below(2);
  value.seq = lies ? number() : ++said_seq_;
  value.phase = static_cast<desired_phase>(from_.below(6));
  value.restarts_used = number32();
  value.restarts_forgiven = number32();
  value.group_world_size = lies ? number32() : 1 + static_cast<std::uint32_t>(from_.below(3));
  value.world_size = number32();
  if (from_.below(4) == 0) value.grace = time();
  if (value.phase != desired_phase::run || from_.below(16) == 0) return value;
  assignment& assigned = value.assignment.emplace();
  assigned.group_rank = lies ? number32() : static_cast<std::uint32_t>(from_.below(3));
  assigned.group_world_size = lies ? number32() : 3;
  assigned.rank_first = lies ? number32() : assigned.group_rank * worker_count;
  assigned.world_size = lies ? number32() : 3 * worker_count;
  if (lies && from_.below(2) == 0) assigned.in_role = {number32(), number32()};
  assigned.master_address = "10.0.0.2";
  assigned.master_port = assigned.tether_port = 29501;
  assigned.leader_node = "leader";
  return value;
}

void play::hear(std::size_t kind) {
  switch (kind) {
    case 0: {
      welcome words;
      words.epoch = from_.below(8) == 0 ? number() : 0;
      timers& timing = words.timing;
      constexpr std::array<duration timers::*, 8> all{
          &timers::node_timeout,    &timers::heartbeat_interval, &timers::reconnect_grace,
          &timers::isolation_limit, &timers::kill_wait,          &timers::start_timeout,
          &timers::join_timeout,    &timers::drain_grace};
      if (from_.below(4) == 0) timing.*all[from_.below(all.size())] = time();
      return say(words);
    }
    case 1:
      return say(ack{number()});
    case 2:
      return say(refused{static_cast<int>(number()), "no"});
    default:
      return say(order());
  }
}

void play::step(std::size_t kind) {
  switch (kind) {
    case 0:
    case 1:
      tell(core::daemon_connected{"10.0.0.3"});
      return say(welcome{});
    case 2:
      return tell(core::daemon_disconnected{"Connection refused"});
    case 3:
    case 4:
      return say(ack{seq_});
    case 5:
    case 6:
    case 7:
      return say(order());
    case 8:
      return hear(from_.below(4));
    case 9:
      return tell(core::service_opened{round(), 29500, 29501, {"id", "an id"}});
    case 10:
      return tell(core::service_failed{round(), "in use"});
    case 11:
      return tell(core::tether_acked{round(), from_.below(4) == 0 ? number() : 0});
    case 12:
      return tell(core::tether_acked{round(), beat_});
    case 13:
      if (from_.below(2) == 0) return tell(core::tether_disconnected{round(), "reset"});
      return tell(core::tether_connected{round()});
    case 14: {
      tether_hello greeting{42, round(), {9, number()}, number32()};
      return tell(core::member_attached{from_.below(8), greeting});
    }
    case 15:
      if (from_.below(4) == 0) return tell(core::member_detached{from_.below(8)});
      return tell(core::member_beat{from_.below(8), {number(), from_.below(2) == 0}});
    case 16:
      return tell(core::workers_started{round()});
    case 17:
      return end_worker();
    case 18:
      if (from_.below(16) == 0) {
        constexpr std::array<int, 4> signals{1, 2, 3, 15};
        return tell(core::signal_received{signals[from_.below(4)]});
      }
      return tell(core::agent_loop_was_late{time()});
    default:
      return pass(std::chrono::milliseconds(50) * from_.byte());
  }
}

void play::end_worker() {
  const auto local_rank = static_cast<std::uint32_t>(from_.below(worker_count));
  if (!lives_[local_rank]) return;
  lives_[local_rank] = false;
  core::worker_ended event;
  event.round = living_round_;
  event.local_rank = local_rank;
  event.success = from_.below(3) == 0;
  event.cause.kind = from_.below(2) == 0 ? cause_class::signal : cause_class::exit;
  event.cause.code = static_cast<int>(from_.byte());
  event.cause.tail = std::string(number() % 6000, 'x');
  tell(event);
}

void play::tell(const core::agent_event& event) {
  if (left_) return;
  core::agent_effects effects;
  machine_.step(event, now_, effects);
  carry_out(effects);
}

void play::carry_out(const core::agent_effects& effects) {
  for (const core::agent_effect& effect : effects) {
    FUZZ_CHECK(!left_);  // `leave` is the last effect ever
    if (const auto* start = std::get_if<core::start_workers>(&effect)) {
      for (const bool lives : lives_)
        FUZZ_CHECK(!lives);
      lives_.fill(true);
      living_round_ = start->round;
    } else if (const auto* sent = std::get_if<core::send_to_daemon>(&effect)) {
      check_text(sent->message);
    } else if (const auto* beat = std::get_if<core::send_tether_beat>(&effect)) {
      beat_ = beat->beat.seq;
    } else if (std::holds_alternative<core::leave>(effect)) {
      left_ = true;
    }
  }
}

void play::check_text(const agent_message& message) {
  const std::string line = protocol::encode(message);
  std::string problem;
  const auto read = protocol::decode_agent_message(line.substr(0, line.size() - 1), &problem);
  if (!read) std::fprintf(stderr, "%s%s\n", line.c_str(), problem.c_str());
  FUZZ_CHECK(read.has_value());
  if (const auto* const greeting = std::get_if<hello>(&message)) seq_ = greeting->state.seq;
  if (const auto* const said = std::get_if<status>(&message)) seq_ = said->seq;
}

void play::pass(duration by) {
  const time_point end = now_ + by;
  std::size_t looks = 0;
  std::size_t all_looks = 0;
  while (!left_) {
    const auto next = machine_.next_deadline();
    // Timers may be as short as 100 microseconds.
    if (!next || *next > end || ++all_looks > 2000) break;
    looks = *next > now_ ? 0 : looks + 1;
    FUZZ_CHECK(looks < looks_max);
    now_ = std::max(now_, *next);
    tell(core::agent_time_passed{});
  }
  now_ = end;
  tell(core::agent_time_passed{});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  play(input(data, size)).run();
  return 0;
}
