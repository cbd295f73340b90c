// Writes the evidence of a round: a folder with a text file for each rank of this node
// (rank_3.txt) and one for the node (node.txt).
//
// The folder must not be there before, and no file in it: what another user has put in its place (a
// link) is not followed. Bounded: see gather.hpp.
//
// Thread rule: any thread but the main one, as a disk may hang.
#pragma once

#include "launcher/evidence/rank_evidence.hpp"

#include <string>

namespace ddprun::launcher::evidence {

// Empty: it is written. Else why it is not, with the path.
std::string write_evidence(const std::string& folder, const node_evidence& seen);

}  // namespace ddprun::launcher::evidence
