// What NCCL itself knows of this node's communicators, from its RAS server: a thread in each
// process with NCCL, which answers while its Python stands still (NCCL 2.24 and later; JSON
// since 2.28.7).
//
// The protocol is lines of text over TCP (nccl/src/ras/client_support.cc, 2.30): "CLIENT PROTOCOL
// 2", "SET FORMAT json", "TIMEOUT 1", "VERBOSE STATUS", each answered, the last until the server
// closes. All processes of a node listen at one port, and any of them answers for the whole job.
//
// Ranks of a communicator may differ in how many collectives they have launched at any moment;
// where a rank that stands still is behind the others it is what they wait for.
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
  std::uint16_t port = 0;  // 0: it is not asked
};

// "localhost:28028", "[::1]:28028".
ras_place ras_place_of(std::string_view text);

// The status, in JSON, or in words from an older NCCL; at most 16 MiB, printable. Empty: nobody
// answers.
std::string ask_ras(const ras_place& where, duration limit);

// What each rank of each communicator has launched, in a text that is the same as long as no rank
// of the job launches a collective. Point-to-point calls are not counted. Empty: it is not said.
std::string ras_counts(std::string_view status);

// A process that has launched fewer collectives than others, and more of none.
struct ras_lag {
  pid_t pid = -1;
  std::string words;  // "AllReduce 1203, others 1204"
  bool operator==(const ras_lag&) const = default;
};
// The only one of the job. None: there are several, or another process has the same number (on
// another host, or in another container).
std::optional<ras_lag> sole_lag(std::string_view status);

// Whether a process of the job has launched fewer collectives than another of its communicator.
bool has_lags(std::string_view status);

// "rank 3 of 8 is behind in NCCL (AllReduce 1203, others 1204)"; empty: no communicator says that.
std::string ras_sentence(std::string_view status);

}  // namespace ddprun::launcher::evidence
