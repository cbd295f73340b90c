#include "launcher/warm/answer_options.hpp"

#include "launcher/warm/site_zip.hpp"

namespace ddprun::launcher::warm {

std::string python_arguments(const answer_options& options) {
  return std::to_string(options.stack_signal) + ", " + python_literal(options.server_folder);
}

}  // namespace ddprun::launcher::warm
