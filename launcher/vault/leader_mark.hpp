// That the leader of a round has a vault, in what it gives all members (leader_data): a node
// without one tells the others so then, and in a job without vaults no node has to say anything.
//
// The bytes are "vault", or that, a blank and what others have put there.
//
// Thread rule: pure functions.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

namespace ddprun::launcher::vault {

leader_data with_mark(leader_data given);
// Taken off. False: it is not there; the leader has no vault, or is of an older version.
bool take_mark(leader_data& given);

}  // namespace ddprun::launcher::vault
