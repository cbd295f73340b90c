// Asks NCCL's RAS server what NCCL knows of this node's communicators. The server is a thread in
// each process that uses NCCL, and answers while Python stands still (NCCL 2.24 and later; JSON
// since 2.28.7).
//
// The protocol is lines of text over TCP (nccl/src/ras/client_support.cc, 2.30): "CLIENT PROTOCOL
// 2", "SET FORMAT json", "TIMEOUT 1", "VERBOSE STATUS". Each is answered; the last answer ends when
// the server closes. All processes of a node listen on one port, and any of them answers for the
// whole job.
//
// At any moment the ranks of a communicator may differ in how many collectives they have launched.
// If a rank that stands still is behind the others, it is the one that they wait for.
//
// Thread rule: `ask_ras` may block for `limit`, on any thread; the rest are pure functions.
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

inline constexpr std::string_view ras_variable = "NCCL_RAS_ADDR";

struct ras_place {
  std::string host;
  std::uint16_t port = 0;  // 0: RAS is off
};

// Parses "localhost:28028" or "[::1]:28028".
ras_place ras_place_of(std::string_view text);

// Returns the status as JSON (as plain text from an older NCCL), at most 16 MiB, printable. Empty:
// no answer.
std::string ask_ras(const ras_place& where, duration limit);

// Describes what each rank of each communicator has launched: the text stays the same as long as no
// rank of the job launches a collective. NCCL does not count point-to-point calls. Empty: the
// status has no counts.
std::string ras_counts(std::string_view status);

// A process that has launched fewer collectives than others, and in no communicator more.
struct ras_lag {
  pid_t pid = -1;
  std::string words;  // "AllReduce 1203, others 1204"
  bool operator==(const ras_lag&) const = default;
};
// The only such process of the job. None: there are several, or another process has the same PID
// (on another host, or in another container).
std::optional<ras_lag> sole_lag(std::string_view status);

// True if a process of the job has launched fewer collectives than another of its communicator.
bool has_lags(std::string_view status);

// "rank 3 of 8 is behind in NCCL (AllReduce 1203, others 1204)"; empty: no communicator shows that.
std::string ras_sentence(std::string_view status);

}  // namespace ddprun::launcher::evidence
