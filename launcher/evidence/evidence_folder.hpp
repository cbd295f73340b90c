// Writes the evidence of a round: a folder with a text file for each rank of this node (rank_3.txt)
// and one for the node (node.txt).
//
// The folder and its files must not exist yet. A link that another user has planted in their place
// is not followed. Sizes are bounded: see evidence_gathering.hpp.
//
// Thread rule: any thread but the main one, because a disk may hang.
#pragma once

#include "launcher/evidence/rank_evidence.hpp"

#include <string>

namespace ddprun::launcher::evidence {

// Returns an empty string if it is written, otherwise why it is not, with the path.
std::string write_evidence(const std::string& folder, const node_evidence& seen);

}  // namespace ddprun::launcher::evidence
