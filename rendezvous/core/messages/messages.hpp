// The messages between a daemon, its agents, and the tethers between agents.
//
// They carry state, not events (DESIGN.md): the newest replaces what has not been sent yet, all of
// it is sent again on a new connection, and what is older than the newest seen is ignored.
// protocol/agent_protocol.hpp encodes and decodes the bytes; this header is what core needs of
// them.
//
// A daemon_message is shared as `shared_ptr<const>`, so that one that goes to all members is
// encoded once.
#pragma once

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/rank_ends.hpp"
#include "rendezvous/core/messages/settings.hpp"
#include "rendezvous/core/messages/stall.hpp"
#include "rendezvous/core/messages/started_job.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

inline constexpr std::uint32_t agent_protocol_version = 4;
inline constexpr std::size_t line_bytes_max = 64 * 1024;
// The limit for an agent's first line, because its sender is still a stranger. All that an agent
// may have to say in it takes 12 KB, and 36 KB if each byte of a tail has to be escaped.
inline constexpr std::size_t hello_bytes_max = 48 * 1024;
// The limit for numbers that grow: exact in every JSON reader. Where a daemon counts on from a
// number that a peer names, that number is at most half of it, so that the limit is never reached.
inline constexpr std::uint64_t count_max = std::uint64_t{1} << 53;
inline constexpr std::uint64_t count_said_max = count_max / 2;
inline constexpr duration age_max = std::chrono::hours(24 * 365);
inline constexpr std::size_t tail_bytes_max = 4096;
inline constexpr std::size_t causes_max = 4;        // in one status
inline constexpr std::size_t tether_ages_max = 64;  // likewise
inline constexpr std::size_t leader_data_bytes_max = 4096;
inline constexpr std::size_t name_bytes_max = 256;  // run id, node id, host name, address

// Why a round ended, as one node saw it.
struct cause {
  round_number round = 0;
  std::uint32_t group_rank = 0;  // of the node in that round
  std::string node;              // its label
  cause_class kind = cause_class::exit;
  std::optional<std::uint32_t> rank;  // global rank; none for a whole node
  std::optional<std::uint32_t> local_rank;
  std::int64_t process = 0;   // pid on its host; 0: none
  int code = 0;               // exit: the status; signal: the number; start: errno; else 0
  bool by_our_stop = false;   // the worker ended after we had asked it to
  bool is_secondary = false;  // it says itself that it ended because another one was gone
  bool was_failing = false;   // by_our_stop: it had said before why it fails, and `text` is that
  duration age{};             // at the moment of sending
  std::string text;           // "cannot execute train.py: Permission denied"
  std::string tail;           // last lines of stderr, valid UTF-8
  bool operator==(const cause&) const = default;
};

// The ranks of a node's workers among those of its own role.
struct role_ranks {
  std::uint32_t rank_first = 0;  // of its local rank 0
  std::uint32_t world_size = 1;  // workers with that role in the round
  bool operator==(const role_ranks&) const = default;
};

// What the leader of a round gives all its members with their assignment. It is passed on unread;
// only the launchers on both ends know what it means.
struct leader_data {
  // ASCII from ' ' to '~' without '"' and '\\', so that it takes as many bytes on the wire; at most
  // leader_data_bytes_max. It may be a secret, and is shown nowhere.
  std::string bytes;
  std::string about;  // for people: what it is; at most name_bytes_max
  bool operator==(const leader_data&) const = default;
};

// A member's assignment in a round. Constant in size, whatever the size of the world.
struct assignment {
  std::uint32_t group_rank = 0;
  std::uint32_t group_world_size = 1;  // nodes in the round
  std::uint32_t rank_first = 0;        // global rank of this node's local rank 0
  std::uint32_t world_size = 1;        // workers in the round
  std::string master_address;          // as workers and tethers dial it, no brackets
  std::uint16_t master_port = 0;
  std::uint16_t tether_port = 0;      // the leader's service; may equal master_port
  std::string leader_node;            // label, for messages
  ddprun::leader_data leader_data;    // of this round
  std::optional<role_ranks> in_role;  // none: all workers of the round have one role
  bool operator==(const assignment&) const = default;
};

// Agent -> daemon.

// A tether that was let go, by its last ack.
struct tether_age {
  std::uint32_t group_rank = 0;  // of the other end: the leader's 0, or at the leader a member's
  duration age{};                // since the leader gave its last ack on it, or the member had it
  bool operator==(const tether_age&) const = default;
};

// Everything that the daemon must know of an agent, and that it could have forgotten.
struct status {
  std::uint64_t seq = 0;          // grows with each status of a session; echoed by `ack`
  std::uint64_t epoch = 0;        // the highest that a daemon has sent to it
  instance_id instance = 0;       // 0: in none
  round_number round = 0;         // of the round it is or was last in; 0: none
  round_number round_told = 0;    // the newest that the daemon has named to it, in or not; >= round
  std::uint64_t desired_seq = 0;  // of the newest `desired` it has obeyed in this instance
  member_phase phase = member_phase::joined;
  // In `round`; none while joined or preparing. In the hello only: a daemon that has welcomed this
  // agent knows it from there, or has assigned it.
  std::optional<ddprun::assignment> assignment;
  duration ran{};                       // since its workers were started; in the hello only, too
  std::uint16_t service_port = 0;       // leader: where tethers are accepted in `round`; 0: not yet
  std::uint16_t master_port = 0;        // leader: what the workers will be told; 0: not yet
  ddprun::leader_data leader_data;      // leader, once prepared
  std::uint32_t restarts_used = 0;      // highest it has been told
  std::uint32_t restarts_forgiven = 0;  // the same
  std::uint32_t unkillable = 0;         // workers that SIGKILL did not end
  // While starting: bytes that have been put back for its workers so far. It may take long, and
  // start_timeout begins again as long as the number grows.
  std::uint64_t restored = 0;
  std::string unhealthy;          // what its health check found; empty: nothing
  bool succeeded = false;         // its workers of `round` ended with 0, though it says stopped
  bool draining = false;          // asked to leave: no candidate for a further round
  int signal = 0;                 // that asked it to leave; SIGINT asks the whole run to stop
  std::vector<cause> causes;      // of `round`, at most causes_max, the likeliest first
  std::vector<ended_ranks> ends;  // of `round`, of this node, once no worker of it lives
  // Of `round`, once it stops here: tethers that have long been without an ack, at most
  // tether_ages_max, the oldest first.
  std::vector<tether_age> tether_ages;
  std::optional<ddprun::stall> stall;  // none of its ranks moves; none: they do, or are not watched
  bool operator==(const status&) const = default;
};

struct hello {
  std::uint32_t protocol = agent_protocol_version;
  std::string version;  // of ddprun
  std::string token;    // room for authentication; empty
  std::string run_id;
  session_id session;
  std::string node;               // label: given, or host name plus a suffix
  bool node_is_explicit = false;  // two explicit equal labels are an error
  std::string host;
  std::uint32_t worker_count = 1;          // workers it starts
  std::optional<std::uint32_t> node_rank;  // by hand: see rank_policy
  std::string role = "default";            // of its workers
  std::string address;                     // --local-addr; empty: not given
  std::string own_address;                 // of its socket towards the daemon
  bool hosts_daemon = false;               // the daemon that it dials lives in its process
  std::string script;                      // what its workers run, without folder and arguments
  // What opened its instance, as a daemon told it; without an instance, what this node starts
  // itself.
  std::optional<started_job> job;
  run_settings settings;
  status state;
  bool operator==(const hello&) const = default;
};

// Whether its node rank, which it then has, must become its group rank.
inline bool is_exact(const hello& greeting) {
  return greeting.settings.ranks == rank_policy::exact;
}

// The last message of an agent: none of its workers lives. It is proof of that.
struct goodbye {
  session_id session;
  bool operator==(const goodbye&) const = default;
};

// A guardian's message, on a connection of its own: the agent is dead and its workers are killed.
// If the daemon lived in that agent, the next one does not know the session, so the message also
// says where the workers were.
struct guardian_word {
  std::string run_id;
  session_id session;
  instance_id instance = 0;  // 0: none, and the other fields do not count
  round_number round = 0;
  std::uint32_t group_rank = 0;
  std::string node;                // its label
  std::uint32_t rank_first = 0;    // of its workers
  std::uint32_t worker_count = 0;  // 0: not said
  bool operator==(const guardian_word&) const = default;
};

// Daemon -> agent.

struct welcome {
  std::uint64_t epoch = 0;  // of the daemon; 0 until there is fail-over
  std::string version;
  timers timing;
  bool operator==(const welcome&) const = default;
};

// The daemon has read the status `seq`: the agent's lease is renewed from when that status was
// sent.
struct ack {
  std::uint64_t seq = 0;
  bool operator==(const ack&) const = default;
};

// A node that has been missing since a round ended, for people.
struct departure {
  std::string what;  // "node-b (10.0.0.2, ranks 2 and 3) was lost"
  duration age{};    // at the moment of sending
  std::string why;   // "silent for 10 s"; may be empty
  bool operator==(const departure&) const = default;
};

struct desired {
  std::uint64_t epoch = 0;
  instance_id instance = 0;
  round_number round = 0;
  std::uint64_t seq = 0;  // grows with every change within the instance
  desired_phase phase = desired_phase::wait;
  std::uint32_t restarts_used = 0;               // charged so far: TORCHELASTIC_RESTART_COUNT
  std::uint32_t restarts_forgiven = 0;           // of them, what --max-restarts counts no longer
  std::uint32_t world_size = 0;                  // prepare: for the descriptor limit
  std::uint32_t group_world_size = 0;            // prepare: how many tethers to expect
  std::string master_address;                    // prepare: where the leader will be dialled
  std::optional<ddprun::assignment> assignment;  // run
  std::string members;         // run: which ranks are where, for people (core/run/view.hpp)
  duration grace{};            // stop: from the request to end to SIGKILL
  int signal = 0;              // stop: that request, where a person has sent it; 0: SIGTERM
  int exit_code = 0;           // close: ddprun's; stop: the run's, 0: a round may follow
  bool is_unreported = false;  // stop: no report will say why, so `text` does
  bool is_ordinary = false;    // stop: all ranks were asked to end, and none is known to be lost
  std::optional<cause> root_cause;  // close: why
  std::string text;  // for people: which nodes we wait for, why we stop, how it ended
  // wait: how long the wait that the first clause of `text` names lasts at most; 0: not known
  duration left{};
  bool is_last_call = false;       // wait: then a round starts, else the run gives up
  std::optional<departure> gone;   // wait: since the round before
  std::string news;                // for people, once: which nodes were replaced by which
  std::string warning;             // for people, once: what may have been started wrongly
  std::optional<started_job> job;  // what the instance was opened with
  std::optional<hung_rank> hung;   // run: to the node of that rank, and to the leader
  bool operator==(const desired&) const = default;
};

// How a round ended, sent once to each member that is here when it is over. It is for people:
// nothing depends on it, and a node that misses it is told the cause when the run is closed.
struct round_report {
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t world_size = 1;
  std::uint32_t group_world_size = 1;
  duration lasted{};                // from when its workers might start to its end
  std::optional<cause> root_cause;  // none: it went well, or nothing had failed
  std::vector<ended_ranks> ends;    // of those that are known, at most ends_max
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;  // of them, what --max-restarts counts no longer
  std::uint32_t restarts_max = 0;
  bool is_last = false;  // no round follows
  int exit_code = 0;     // last: of the run
  std::string text;      // what is done next, or why nothing is
  bool operator==(const round_report&) const = default;
};

// The daemon ends the session, or does not begin it; `text` says why and what to do.
struct refused {
  int exit_code = refused_exit_code;
  std::string text;
  bool operator==(const refused&) const = default;
};

// This daemon may not decide, because another one may: try the next endpoint. Unlike `refused` it
// is no reason to exit.
struct not_primary {
  std::string text;
  bool operator==(const not_primary&) const = default;
};

// Tether: member -> leader and back.

struct tether_hello {
  instance_id instance = 0;
  round_number round = 0;
  session_id session;
  std::uint32_t group_rank = 0;
  std::uint64_t epoch = 0;  // as in its status
  bool operator==(const tether_hello&) const = default;
};

struct tether_beat {
  std::uint64_t seq = 0;
  bool succeeded = false;  // its workers have succeeded, so the leader need not stay for it
  bool operator==(const tether_beat&) const = default;
};

struct tether_ack {
  std::uint64_t seq = 0;  // of the beat that it acknowledges; the hello counts as 0
  bool operator==(const tether_ack&) const = default;
};

using agent_message =
    std::variant<hello, status, goodbye, guardian_word, tether_hello, tether_beat>;
using daemon_message = std::variant<welcome, ack, desired, refused, not_primary, round_report>;
using tether_reply = std::variant<tether_ack, refused>;

enum class note_level { debug, info, warning, error };

}  // namespace ddprun
