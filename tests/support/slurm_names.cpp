// Expands each list on its command line as ddprun does. Prints a line for each: the names separated
// by spaces, or "none".
#include "launcher/hosts/slurm/node_list.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  for (int index = 1; index < argc; ++index) {
    const auto names = ddprun::launcher::slurm::expand_node_list(argv[index]);
    if (!names) {
      std::puts("none");
      continue;
    }
    for (const std::string& name : *names)
      std::printf("%s ", name.c_str());
    std::puts("");
  }
}
