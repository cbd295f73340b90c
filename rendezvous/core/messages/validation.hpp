// What a peer may say, checked before a machine uses any of it.
//
// The decoder checks each value by itself. This checks values against each other and against what
// was said before; and repeats the decoder's checks, for a machine that is fed without one. Each
// function returns one line that names what is wrong, or nothing.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>

namespace ddprun::core {

// The largest exit status, signal or errno.
inline constexpr int cause_code_max = 65536;

// Checks a hello's fixed part and settings, and its state against these.
std::string problem_of(const hello& greeting);

// What to do about a node rank that cannot be exact: ": give each node its own ...".
std::string node_rank_advice(std::uint32_t nodes);

// Whether the assignment has ranks for `worker_count` workers, in the world and within their role.
bool has_ranks_for(const assignment& assigned, std::uint32_t worker_count);

// Whether leader_data::bytes may hold every byte; what is wrong otherwise.
bool is_opaque_data(std::string_view bytes);
inline constexpr std::string_view opaque_data_problem =
    "holds a character that is no printable ASCII, a quotation mark or a backslash";

std::string problem_of(const leader_data& given);

// `greeting` is the sender's hello.
std::string problem_of(const status& said, const hello& greeting);

// A session that says hello again is the same process, so only its state and its addresses may
// differ. Returns the name of the first other field that does.
std::string first_change(const hello& first, const hello& again);

// Rejects timers that would make an agent spin or never wait.
std::string problem_of(const welcome& words);

// Checks what the daemon wants, and for how long.
std::string problem_of(const desired& wanted);

}  // namespace ddprun::core
