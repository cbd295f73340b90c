// A world consists of hosts, processes, a network and time, all determined by one seed.
//
// A scenario builds one, lets time pass, and calls the faults below. The first violation is kept,
// and the world stops at it. With `tracing` the transcript has every message, worker and fault with
// its moment.
//
// Thread rule: one thread; worlds are independent of each other.
#pragma once

#include "tests/simulation/checkers.hpp"
#include "tests/simulation/random_source.hpp"
#include "tests/simulation/restart_checkers.hpp"
#include "tests/simulation/simulated_agent.hpp"
#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/simulated_journal.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/simulation/timeline.hpp"

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::simulation {

// A mutant changes what goes into a machine or comes out of it. `false` drops the event.
struct mutant {
  std::function<bool(daemon&, core::daemon_event&)> daemon_event;
  std::function<void(daemon&, const core::daemon_event&, core::daemon_effects&)> daemon_effects;
  std::function<bool(agent&, core::agent_event&)> agent_event;
  std::function<void(agent&, const core::agent_event&, core::agent_effects&)> agent_effects;
  bool queues_replace = true;
  bool journal_reports_early = false;  // before it has written
  bool guardian_sleeps = false;        // while its agent lives
  bool journal_is_ignored = false;     // its records are given to no daemon
};

// How workers behave; drawn from the seed by most scenarios.
struct worker_habits {
  unsigned collateral_percent = 100;  // of the others fail too when one worker of a round fails
  unsigned effect_percent = 50;       // of those call it secondary
  duration collateral_least{};
  duration collateral_most = std::chrono::seconds(2);
  unsigned ignores_term_percent = 0;
  duration stop_most = std::chrono::milliseconds(200);
  duration start_most = std::chrono::milliseconds(20);
  unsigned slow_kill_percent = 0;  // of the workers that are killed end only later
  duration slow_kill_most = std::chrono::seconds(3);
};

// What the health check of a node reports between rounds.
struct health_habits {
  bool are_checked = false;
  unsigned ill_percent = 0;
  duration check_most = std::chrono::milliseconds(200);
  duration again = std::chrono::seconds(5);
};

struct world_options {
  std::uint64_t seed = 1;
  run_settings settings;
  std::int64_t clock_error_parts_per_million = 10'000;  // at most, either way
  worker_habits habits;
  health_habits health;
  mutant mutation;
  unsigned double_percent = 0;         // of the statuses the daemon reads twice
  bool first_daemon_recovers = false;  // waits for an earlier one's agents; later ones always do
  bool embeds = false;            // an agent on the endpoint's host hosts a daemon where none is
  bool embedded_recovers = true;  // and that one waits for agents of an earlier daemon
  journal_kind journal = journal_kind::none;
  unsigned slow_disk_percent = 3;  // of the writes of a journal take up to 900 ms
  bool hosts_share_name = false;   // as hosts made from one image may
  std::uint64_t window_most = 16;  // messages under way on a connection: 1 to so many
  strictness strict = promised;
  std::uint64_t events_most = 1'000'000;
  bool tracing = false;
};

class world {
 public:
  explicit world(world_options options);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  // Building, and what people do.
  host& add_host();
  agent& start_agent(host& on, agent_wish wish = {});
  // Does what launcher/agent/embedded_daemon does, if the endpoint is the agent's host and its port
  // is free.
  void host_daemon(agent& in);
  // From now on the endpoint's name resolves to that host, where agents then look for a daemon.
  void set_endpoint(const host& on);
  // Starts a separate daemon there; null if its port is taken.
  daemon* start_daemon(host& on);
  void signal(agent& whom, int number);
  // The signal goes to the agent's whole cgroup, in any order, within some milliseconds.
  void signal_group(agent& whom, int number);
  bool finishing() const { return finishing_; }
  bool first_daemon_recovers() const { return options_.first_daemon_recovers; }
  bool embedded_recovers() const { return options_.embedded_recovers; }
  std::uint64_t window_most() const { return options_.window_most; }
  unsigned double_percent() const { return options_.double_percent; }
  const strictness& strict() const { return options_.strict; }
  void finish_training();  // from now on workers of a complete round soon end with 0

  // Time.
  void run_until(moment end);
  void run_for(duration time) { run_until(now() + time); }
  // Runs until `condition` holds; false if `limit` has passed first.
  bool run_until_true(const std::function<bool()>& condition, duration limit);

  // Faults.
  void kill_agent(agent& which);  // and the daemon in it
  void kill_daemon();             // and the agent round it
  void stop_process(agent& which);
  void continue_process(agent& which);
  void stop_daemon(daemon& which);
  void continue_daemon(daemon& which);
  void block(agent& which);
  void lose_power(host& which);
  void give_power(host& which);
  void stand_still(host& which, bool clock_too);
  void go_on(host& which);
  void fail_worker(worker_group& group, std::size_t index, cause_class kind, int code,
                   bool is_secondary = false);
  void succeed_node(worker_group& group);
  void make_unkillable(worker_group& group, duration time);
  void fail_next_service(host& which) { services_to_fail_.insert(which.id); }
  void fail_next_start(host& which) { starts_to_fail_.insert(which.id); }
  void stall_next_start(host& which, duration time, bool unkillable) {
    starts_to_stall_[which.id] = {time, unkillable};
  }
  void forget_planned_failures();
  void set_island(host& which, std::uint32_t island);
  void heal_everything();  // links, hosts that stand still; power and daemons are the scenario's
  void make_deaf(agent& which);
  void note_fault() { ++faults_, note_trouble(); }
  // Records that something goes wrong, or stops going wrong.
  void note_trouble() { last_trouble_ = now(); }
  moment last_trouble() const { return last_trouble_; }
  // For how long after such trouble rounds may still end because of it.
  duration trouble_lasts() const;
  bool anyone_died() const { return anyone_died_; }  // an agent, other than by leaving
  std::uint64_t faults() const { return faults_; }
  bool faults_active() const;

  // The state of the world.
  timeline& time() { return time_; }
  moment now() const { return time_.now(); }
  network& net() { return network_; }
  random_source& random() { return random_; }
  random_source& health_chances() { return health_; }
  const health_habits& health() const { return options_.health; }
  const run_settings& settings() const { return options_.settings; }
  worker_habits& habits() { return options_.habits; }
  const mutant& mutation() const { return options_.mutation; }
  checkers& checks() { return checkers_; }
  const checkers& checks() const { return checkers_; }
  const restart_checkers& restart_checks() const { return restart_checkers_; }
  host& host_at(host_id id) { return *hosts_[id]; }
  const host& host_at(host_id id) const { return *hosts_[id]; }
  std::size_t hosts() const { return hosts_.size(); }
  std::vector<std::unique_ptr<agent>>& agents() { return agents_; }
  daemon* current_daemon();                // the newest one that is alive
  daemon* daemon_of(std::uint64_t index);  // null if it is dead
  bool has_daemon_at_endpoint() const;
  const std::string& endpoint_address() const { return endpoint_address_; }
  std::optional<host_id> host_of_address(const std::string& address, host_id from) const;
  bool has_journals() const { return options_.journal != journal_kind::none; }
  // The folder of the daemons there; null: they keep nothing.
  state_folder* folder_of(const host& where);
  // How often one was deleted, put back from an old copy, or could not be written.
  std::uint64_t folders_tampered() const;
  // How many agents are alive, neither leaving nor asked to leave, and able to run workers.
  std::size_t agents_here(const std::string& run_id = "train") const;

  // Called by the processes.
  void start_workers(agent& by, const core::start_workers& effect);
  void ask_workers(agent& by, round_number round, int signal);
  void kill_workers(agent& by, round_number round_most);
  void guardian_strikes(agent& of);  // which stands still
  bool service_fails(host_id on) { return services_to_fail_.erase(on) == 1; }
  void agent_exits(agent& who);
  void daemon_exits(daemon& which);
  // The round's number is given out again.
  void forget_round(instance_id instance, round_number round) {
    collateral_.erase({instance, round});
    finished_.erase({instance, round});
  }
  void run_closed(daemon& by, const core::run_view& view) {
    checkers_.run_closed(by, view);
    restart_checkers_.run_closed(view);
  }
  void message_sent(const connection& over, int end, const parcel& message);
  void message_read(const connection& over, int end, const payload& message);
  void queue_grew(const connection& over, int end) { checkers_.queue_grew(over, end); }
  bool queues_replace() const { return options_.mutation.queues_replace; }
  instance_id fresh_instance() { return random_.next() | 1; }
  duration timer_lateness() {
    return random_.between(duration::zero(), std::chrono::milliseconds(3));
  }
  // Called with every message before it is in flight; a scenario may kill its sender.
  std::function<void(const connection&, int, const parcel&)> on_sent;
  // Called when a worker dies of a signal from its own agent.
  std::function<void(const worker_group&)> on_killed_by_agent;
  // An agent is told that a rank of it hangs.
  std::function<void(agent&, const core::name_hung&)> on_hung;

  // The verdict.
  void violated(const std::string& text);
  bool over() const { return !violation_.empty(); }
  const std::string& violation() const { return violation_; }
  void trace(const std::invocable auto& text) {
    if (options_.tracing) trace_line(text());
  }
  const std::string& transcript() const { return transcript_; }

 private:
  daemon& add_daemon(host& on, agent* inside);
  void trace_line(const std::string& text);
  void note_failed_start(const payload& message);
  void note_order(const connection& over, const payload& message);
  void note_ack(const connection& over, const payload& message);
  void note_refusal(const connection& over, const payload& message);
  std::string words_of_failure();
  void on_host(host& which, duration delay, std::function<void()> what);
  void end_worker(worker_group& group, std::size_t index, bool success, cause_class kind, int code,
                  bool is_secondary = false);
  void kill_one(const std::shared_ptr<worker_group>& group, std::size_t index);
  void others_fail_too(const worker_group& group);
  void succeed_if_complete(instance_id instance, round_number round);

  world_options options_;
  random_source random_;
  random_source effects_;  // separate, so that these draws change no others
  random_source words_;
  random_source health_;
  timeline time_;
  network network_;
  checkers checkers_;
  restart_checkers restart_checkers_;
  std::vector<std::unique_ptr<host>> hosts_;
  std::vector<std::unique_ptr<agent>> agents_;
  std::vector<std::unique_ptr<daemon>> daemons_;
  std::vector<std::unique_ptr<guardian>> guardians_;
  random_source journal_random_;
  std::map<host_id, state_folder> folders_;
  std::set<host_id> services_to_fail_;
  std::set<host_id> starts_to_fail_;
  std::map<host_id, std::pair<duration, bool>> starts_to_stall_;
  std::set<std::pair<instance_id, round_number>> collateral_;
  std::set<std::pair<instance_id, round_number>> finished_;
  bool finishing_ = false;
  bool anyone_died_ = false;
  moment last_trouble_{};
  std::uint64_t faults_ = 0;
  std::uint64_t groups_ = 0;
  std::string endpoint_address_;
  std::string violation_;
  std::string transcript_;
};

}  // namespace ddprun::simulation
