// Ranks in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// "rank 3", "ranks 1, 4 to 7 and 9"; a long list ends with a number, "ranks 1, 3, 5 and 40 more".
// `ranks` must be ascending and not empty.
std::string text_of_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace ddprun
