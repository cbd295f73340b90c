// Cards and sightings as JSON, in which form nodes leave them in the store.
//
// What another version or a stranger has left there does not decode.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

#include <string_view>

namespace ddprun::launcher::doctor {

std::string encode(const node_card& card);
std::optional<node_card> decode_card(std::string_view text);
// The name on a card of any version; empty: there is none.
std::string name_on_card(std::string_view text);

std::string encode(const node_seen& seen);
// `nodes`: indexes from this on are invalid.
std::optional<node_seen> decode_seen(std::string_view text, std::size_t nodes);

const char* name_of(path_answer what);

}  // namespace ddprun::launcher::doctor
