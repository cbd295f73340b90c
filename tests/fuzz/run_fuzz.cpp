// The daemon's machine and eight peers, some of which lie: hellos, statuses and settings with any
// numbers in them, connections that come and go, time that stands still or jumps.
//
// Whatever they do, messages to others can be decoded, the run remembers a bounded number of
// things, and it does not ask for ever to be stepped at the same moment.
//
// The input is a sequence of steps: a byte for the kind, a byte for the peer, then what that kind
// reads.
#include "rendezvous/core/run/run_machine.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/fuzz/input.hpp"

#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>

namespace {

using namespace ddprun;
using ddprun::fuzz::input;

constexpr std::size_t peers_max = 8;
constexpr std::size_t steps_max = 300;
constexpr std::size_t looks_max = 100;  // in a row, at one moment

struct peer {
  hello greeting;
  status state;
  connection_id connection = 0;  // 0: none
  desired wanted;
};

class play {
 public:
  explicit play(input from) : from_(from), run_(options()) {
    for (std::size_t index = 0; index < peers_max; ++index)
      greet_honestly(index);
  }

  void run() {
    for (std::size_t step = 0; step < steps_max && !from_.empty(); ++step) {
      const std::size_t kind = from_.below(16);
      this->step(kind, peers_[from_.below(peers_max)]);
      check();
    }
  }

 private:
  core::run_options options() {
    core::run_options made;
    made.run_id = "fuzz";
    const std::size_t choice = from_.below(3);
    made.recovery_until = now_ + std::chrono::seconds(choice == 0 ? -1 : 10);
    return made;
  }

  void greet_honestly(std::size_t index) {
    hello& greeting = peers_[index].greeting;
    greeting.run_id = "fuzz";
    // Two of them have the same session, and some have the same name.
    greeting.session = {1, 1 + index % (peers_max - 1)};
    greeting.node = std::string(1, static_cast<char>('a' + index % 3));
    greeting.node_is_explicit = index % 2 == 0;
    greeting.host = greeting.node;
    greeting.settings.nodes_max = 3;
    greeting.settings.spares_max = 4;
    greeting.settings.restarts_max = 2;
    greeting.settings.node_failures_max = 1;
    greeting.settings.timing.restart_window = std::chrono::seconds(2);
    greeting.settings.timing.last_call_timeout = std::chrono::seconds(1);
    if (index == 3) greeting.settings.nodes_max = 2;
    if (index == 4) greeting.settings.on_join = join_policy::restart;
  }

  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 10> special{0,
                                                    std::numeric_limits<std::uint64_t>::max(),
                                                    std::numeric_limits<std::uint32_t>::max(),
                                                    std::numeric_limits<std::int64_t>::max(),
                                                    count_max,
                                                    count_max + 1,
                                                    count_said_max,
                                                    count_said_max + 1,
                                                    nodes_per_run_max,
                                                    42};
    const std::size_t choice = from_.byte();
    if (choice < special.size()) return special[choice];
    return choice < 128 ? choice % 8 : choice;
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  duration time() {
    const auto count = static_cast<std::int64_t>(number());
    if (from_.below(2) == 0) return duration(count);
    constexpr std::int64_t most = duration::max().count() / 1'000'000'000;
    return std::chrono::seconds(std::clamp(count, -most, most));
  }

  void step(std::size_t kind, peer& who);
  void join(peer& who);
  void say(peer& who);
  void obey(peer& who);
  void progress(peer& who);
  void lie(status& state);
  void lie(run_settings& settings);
  void tell(const core::run_event& event);
  void deliver(const core::send_to_agent& sent);
  void pass(duration by);
  void check();

  input from_;
  time_point now_{std::chrono::hours(1000)};
  std::array<peer, peers_max> peers_;
  connection_id last_connection_ = 0;
  std::set<connection_id> open_;
  core::run run_;
};

void play::lie(status& state) {
  switch (from_.below(12)) {
    case 0:
      state.instance = number();
      return;
    case 1:
      state.round = number();
      return;
    case 2:
      state.round_told = number();
      return;
    case 3:
      state.desired_seq = number();
      return;
    case 4:
      state.restarts_used = number32();
      state.restarts_forgiven = number32();
      return;
    case 5:
      state.unkillable = number32();
      return;
    case 6:
      state.phase = static_cast<member_phase>(from_.below(10));
      return;
    case 7:
      state.draining = from_.below(2) == 0;
      state.signal = static_cast<int>(number());
      return;
    case 8:
      state.seq = number();
      return;
    case 9: {
      assignment assigned;
      assigned.group_rank = number32();
      assigned.group_world_size = number32();
      assigned.rank_first = number32();
      assigned.world_size = number32();
      if (from_.below(2) == 0) assigned.in_role = {number32(), number32()};
      state.assignment = assigned;
      return;
    }
    case 10:
      state.assignment = assignment{};
      state.assignment->group_world_size = 1 + static_cast<std::uint32_t>(from_.below(3));
      state.assignment->group_rank = static_cast<std::uint32_t>(from_.below(3));
      state.assignment->world_size = 9;
      return;
    default: {
      cause why;
      why.round = from_.below(2) == 0 ? state.round : number();
      why.group_rank = number32();
      why.kind = static_cast<cause_class>(from_.below(8));
      why.code = static_cast<int>(number());
      why.age = time();
      why.by_our_stop = from_.below(2) == 0;
      state.causes.push_back(why);
    }
  }
}

void play::lie(run_settings& settings) {
  timers& timing = settings.timing;
  switch (from_.below(10)) {
    case 0:
      settings.nodes_min = number32();
      return;
    case 1:
      settings.nodes_max = number32();
      return;
    case 2:
      settings.spares_max = number32();
      return;
    case 3:
      settings.restarts_max = number32();
      return;
    case 4:
      settings.node_losses_max = number32();
      return;
    case 5:
      timing.node_timeout = time();
      return;
    case 6:
      timing.reconnect_grace = time();
      return;
    case 7:
      timing.join_timeout = time();
      return;
    case 8:
      timing.settle = timing.settle_max = time();
      return;
    default:
      timing.heartbeat_interval = timing.isolation_limit = time();
  }
}

void play::step(std::size_t kind, peer& who) {
  switch (kind) {
    case 0:
    case 1:
      return join(who);
    case 2:
    case 3:
    case 4:
      progress(who);
      return say(who);
    case 5:
      obey(who);
      return say(who);
    case 6:
      lie(who.state);
      return say(who);
    case 7:
      lie(who.state);
      return join(who);
    case 8:
      lie(who.greeting.settings);
      return join(who);
    case 9: {  // another process
      const auto index = static_cast<std::size_t>(&who - peers_.data());
      who.state = {};
      greet_honestly(index);
      who.greeting.session.low = 1 + from_.byte();
      return join(who);
    }
    case 10:
      if (who.connection == 0) return;
      open_.erase(who.connection);
      return tell(core::agent_disconnected{std::exchange(who.connection, 0)});
    case 11:
      if (who.connection == 0) return;
      open_.erase(who.connection);
      return tell(core::goodbye_received{std::exchange(who.connection, 0)});
    case 12:
      return tell(core::guardian_reported{who.greeting.session});
    case 13:
      return pass(std::chrono::milliseconds(100) * from_.byte());
    case 14:
      return pass(std::chrono::seconds(10) * from_.byte());
    default:
      if (from_.below(4) != 0) {
        return tell(core::loop_was_late{std::chrono::milliseconds(10) * from_.byte()});
      }
      return tell(core::operator_stop_requested{"enough"});
  }
}

void play::join(peer& who) {
  if (who.connection != 0) {
    // Otherwise the old connection stays half-open.
    if (from_.below(2) == 0) {
      open_.erase(who.connection);
      tell(core::agent_disconnected{std::exchange(who.connection, 0)});
    }
  }
  who.connection = ++last_connection_;
  open_.insert(who.connection);
  ++who.state.seq;
  core::agent_joined event{who.connection, who.greeting, "10.0.0.1", "10.0.0.9",
                           40 + from_.below(4)};
  event.hello.state = who.state;
  tell(event);
}

void play::say(peer& who) {
  if (who.connection == 0) return;
  ++who.state.seq;
  tell(core::status_received{who.connection, who.state});
}

void play::obey(peer& who) {
  const desired& wanted = who.wanted;
  if (wanted.instance != who.state.instance || wanted.round != who.state.round) {
    who.state.causes.clear();
    who.state.service_port = 0;
  }
  who.state.instance = wanted.phase == desired_phase::fence ? 0 : wanted.instance;
  who.state.round = wanted.round;
  who.state.round_told = wanted.round;
  who.state.desired_seq = wanted.seq;
  if (wanted.phase == desired_phase::run) who.state.assignment = wanted.assignment;
  if (wanted.phase == desired_phase::fence) who.state.phase = member_phase::joined;
}

// The peer goes one step further in what its newest order asks for.
void play::progress(peer& who) {
  if (who.wanted.seq == 0) return;
  obey(who);
  status& state = who.state;
  switch (who.wanted.phase) {
    case desired_phase::prepare:
      state.phase = member_phase::preparing;
      state.service_port = 29501;
      return;
    case desired_phase::run:
      state.phase = state.phase == member_phase::assigned   ? member_phase::starting
                    : state.phase == member_phase::starting ? member_phase::running
                    : state.phase == member_phase::running  ? member_phase::succeeded
                                                            : member_phase::assigned;
      return;
    case desired_phase::stop:
      state.phase =
          state.phase == member_phase::stopping ? member_phase::stopped : member_phase::stopping;
      return;
    default:
      state.phase = member_phase::joined;
  }
}

void play::tell(const core::run_event& event) {
  core::run_effects effects;
  run_.step(event, now_, effects);
  for (const core::run_effect& effect : effects) {
    if (const auto* sent = std::get_if<core::send_to_agent>(&effect)) deliver(*sent);
    if (const auto* cut = std::get_if<core::disconnect_agent>(&effect)) {
      open_.erase(cut->connection);
      for (peer& who : peers_) {
        if (who.connection == cut->connection) who.connection = 0;
      }
    }
  }
}

void play::deliver(const core::send_to_agent& sent) {
  FUZZ_CHECK(open_.contains(sent.connection));
  const std::string line = protocol::encode(*sent.message);
  std::string problem;
  const auto read = protocol::decode_daemon_message(line.substr(0, line.size() - 1), &problem);
  if (!read) std::fprintf(stderr, "%s%s\n", line.c_str(), problem.c_str());
  FUZZ_CHECK(read.has_value());
  const auto* const wanted = std::get_if<desired>(sent.message.get());
  if (wanted == nullptr) return;
  for (peer& who : peers_) {
    if (who.connection == sent.connection) who.wanted = *wanted;
  }
}

void play::pass(duration by) {
  const time_point end = now_ + by;
  std::size_t looks = 0;
  while (true) {
    const auto next = run_.next_deadline();
    if (!next || *next > end) break;
    looks = *next > now_ ? 0 : looks + 1;
    FUZZ_CHECK(looks < looks_max);
    now_ = std::max(now_, *next);
    tell(core::time_passed{});
  }
  now_ = end;
  tell(core::time_passed{});
}

void play::check() {
  const core::run_sizes sizes = run_.sizes();
  FUZZ_CHECK(sizes.nodes <= 256);  // as many sessions as there are
  FUZZ_CHECK(sizes.settings_groups <= std::max<std::size_t>(sizes.nodes, 1));
  FUZZ_CHECK(sizes.closed_instances <= 64);
  const core::run_view view = run_.view(now_);
  FUZZ_CHECK(view.round <= count_max);
  FUZZ_CHECK(view.members.size() == sizes.nodes);
  FUZZ_CHECK(!run_.why(now_).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  play(input(data, size)).run();
  return 0;
}
