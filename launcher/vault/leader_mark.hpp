// Marks the data that the leader gives to all members (leader_data): the leader has a vault. Only
// then a node without one has to tell the others, so a job without vaults pays nothing.
//
// The bytes are "vault", followed by a blank and the data of others, if any.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

namespace ddprun::launcher::vault {

leader_data with_mark(leader_data given);
// Removes the mark. False: there is none; the leader has no vault, or an older version.
bool take_mark(leader_data& given);

}  // namespace ddprun::launcher::vault
