// Cards and sightings as the JSON that nodes leave for each other in the store.
//
// What another version or a stranger has left there is no card: none.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

#include <string_view>

namespace ddprun::launcher::doctor {

std::string encode(const node_card& card);
std::optional<node_card> decode_card(std::string_view text);
// What a card says in whatever version; empty: not even that.
std::string name_on_card(std::string_view text);

std::string encode(const node_seen& seen);
// `nodes`: sightings of nodes with another index are nonsense.
std::optional<node_seen> decode_seen(std::string_view text, std::size_t nodes);

const char* name_of(path_answer what);

}  // namespace ddprun::launcher::doctor
