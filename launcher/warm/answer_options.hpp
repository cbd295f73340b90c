// How a worker is asked where it stands (launcher/evidence), as the Python that it begins with is
// told.
//
// Thread rule: a value.
#pragma once

#include <string>

namespace ddprun::launcher::warm {

struct answer_options {
  int stack_signal = 0;       // asks for its stacks; 0: none
  std::string server_folder;  // in which its PyTorch listens (server_folder.hpp); empty: nowhere
};

// As the last arguments of a call.
std::string python_arguments(const answer_options& options);

}  // namespace ddprun::launcher::warm
