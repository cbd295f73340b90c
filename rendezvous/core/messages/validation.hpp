// What a peer may say: judged before a machine uses any of it.
//
// The decoder judges each value by itself; this judges what values mean beside each other and
// beside what was said before, and what the decoder judges too, for a machine that is fed without
// one. Each function gives one line that names what is wrong, or nothing.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>

namespace ddprun::core {

// Of an exit status, a signal or an errno.
inline constexpr int cause_code_max = 65536;

// A hello's fixed part and settings, and what its state says in the light of these.
std::string problem_of(const hello& greeting);

// What to do about a node rank that cannot be exact: ": give each node its own ...".
std::string node_rank_advice(std::uint32_t nodes);

// Whether ranks for `worker_count` workers are in it, over all and within their role.
bool has_ranks_for(const assignment& assigned, std::uint32_t worker_count);

// Whether every byte is one that leader_data::bytes may hold; what is wrong where it is not so.
bool is_opaque_data(std::string_view bytes);
inline constexpr std::string_view opaque_data_problem =
    "holds a character that is no printable ASCII, a quotation mark or a backslash";

std::string problem_of(const leader_data& given);

// `greeting` is its sender's.
std::string problem_of(const status& said, const hello& greeting);

// A session that says hello again is the same process: only its state and its addresses may differ.
// Gives the name of the first other field that does.
std::string first_change(const hello& first, const hello& again);

// Values that would make an agent spin or never wait are no timers.
std::string problem_of(const welcome& words);

// What the daemon wants, and for how long.
std::string problem_of(const desired& wanted);

}  // namespace ddprun::core
