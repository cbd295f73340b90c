// Placeholders for a round's numbers in arguments: {rank}, and torchrun's ${local_rank}.
//
// Arguments belong to the script and are full of $ and braces of their own (Hydra, OmegaConf, JSON,
// Jinja). So:
//   - What follows a $ is handled as by torchrun, that is Python's string.Template with
//     safe_substitute: ${local_rank} and $local_rank are replaced, $$ is one $, everything else
//     stays. Braces right after a $ are never ours: ${rank} stays ${rank}, and $${local_rank}
//     becomes ${local_rank}.
//   - {name} is replaced if the name is one of ours, and then {{name}} becomes {name}. All other
//     braces stay.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct placeholder {
  std::string_view name;
  std::string value;
};

// Without `values` only torchrun's ${local_rank} is replaced.
std::string fill_in(std::string_view text, const std::vector<placeholder>& values,
                    const std::string& local_rank);

// string.Template(text).safe_substitute with these values.
std::string fill_template(std::string_view text, const std::vector<placeholder>& values);

}  // namespace ddprun::launcher
