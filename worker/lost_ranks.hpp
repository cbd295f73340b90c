// What to say when a wait for other ranks has failed: how long it was, and for which ranks.
//
// Thread rule: that of the store client.
#pragma once

#include "rendezvous/base/time.hpp"
#include "worker/store_client.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::worker {

// How long the store may take for an answer that only improves the text of an error: whoever reads
// it has waited already.
constexpr std::chrono::seconds late_answer_limit{5};

// "still waiting after 30 s (a peer is gone or late)"
std::string still_waiting(duration waited);

// The value of the key, empty if there is none. None if the store does not answer.
std::optional<std::string> late_answer(store_client& store, const std::string& key);

// "no word from ranks 2 and 3", from what is known of each rank; empty if all have come.
std::string no_word_from(const std::vector<bool>& has_come);

}  // namespace ddprun::worker
