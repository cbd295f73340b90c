// The command line of ddprun-nccl-id.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/command_line.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {

struct nccl_id_options {
  std::string library;       // its path; empty: the one that the system finds
  bool asks_python = false;  // for the path of the library
  std::string program;       // load the library that it uses; empty: any
  std::uint32_t count = 0;   // of ids; 0: read it from standard input
};

using nccl_id_outcome = std::variant<nccl_id_options, cli::show_text, cli::usage_error>;

// `words` are without the program's own name. DDPRUN_NCCL_LIBRARY overrides all options.
nccl_id_outcome parse_nccl_id_options(const std::vector<std::string>& words,
                                      const environment_map& environment);

// From 1 to nccl_ids_max_made.
cli::parsed<std::uint32_t> read_id_count(const std::string& text);

}  // namespace ddprun::launcher
