// What stands in an argument for a number of the round: {rank}, and torchrun's ${local_rank}.
//
// Arguments are for the script, and full of $ and braces of their own (Hydra, OmegaConf, JSON,
// Jinja). So:
// - What follows a $ is as torchrun has it, which is Python's string.Template with safe_substitute:
//   ${local_rank} and $local_rank are replaced, $$ is one $, all else stays. Braces right after a $
//   are never ours: ${rank} stays ${rank}, and $${local_rank} is ${local_rank}.
// - {name} is replaced where the name is one of ours, and {{name}} is then {name}. All other braces
//   stay as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct placeholder {
  std::string_view name;
  std::string value;
};

// Without `values` nothing but torchrun's ${local_rank} is replaced.
std::string fill_in(std::string_view text, const std::vector<placeholder>& values,
                    const std::string& local_rank);

// string.Template(text).safe_substitute of these.
std::string fill_template(std::string_view text, const std::vector<placeholder>& values);

}  // namespace ddprun::launcher
