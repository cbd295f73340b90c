#include "launcher/cli/help.hpp"

#include "launcher/cli/option_table.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/core/messages/settings_table.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view usage = R"(usage: ddprun [OPTIONS] SCRIPT [ARGUMENTS]
       ddprun explain FILE... | -   explains why a job failed, from its saved log
       ddprun doctor [OPTIONS]      finds what on this node would make a job fail
       ddprun manifest kubernetes [OPTIONS] SCRIPT    writes YAML for kubectl apply

Starts the workers of a distributed training job on this node, lets the nodes of the job find each
other, and starts all workers again when one fails. Run it once on every node. It takes
torchrun's options; '-' and '_' in their names are the same, and PET_<NAME> in the environment sets
a default (PET_NPROC_PER_NODE=4).

  ddprun --nproc-per-node=2 train.py --epochs 10                     one node
  ddprun --nnodes=2 --nproc-per-node=gpu --rdzv-endpoint=node0 \
         --rdzv-id=job7 --max-restarts=3 train.py                    the same on both nodes
  ddprun -H node0:4,node1:4 train.py                                 the same from here, over ssh
  ddprun --nproc-per-node=4 --no-python ./build/bin/train            a plain program
)";

constexpr std::string_view of_arguments = R"(
  Python is $PYTHON_EXEC, else that of the environment into which pip has installed ddprun, else the
  active virtual environment's, else python3. ARGUMENTS may contain
  {rank} {local_rank} {group_rank} {world_size} {nnodes} {master_addr} {master_port} {master_url}
  {free_port} and ${local_rank}; {{rank}} stands for {rank}. Other braces, and ${rank}, are left
  alone.
)";

constexpr std::string_view exit_codes = R"(
Exit code: 0 when every worker exited with 0; that of the worker that failed first, or 128 plus its
signal; 1 when the root cause has no such code (a node was lost, a rank hung, a worker could not be
started); 2 for a mistake on the command line; 68 when another job has opened the endpoint; 69 when
the nodes did not meet within join_timeout; 78 when the run refuses this node; 128 plus the signal
that ended the run, and 0 for a node that left on a signal while the others go on.
)";

std::string options_under(std::string_view heading) {
  return "\n" + std::string(heading) + "\n" + cli::help_under(launcher_command(), heading);
}

std::string timers_help() {
  std::string text = "\nTimers, in seconds (--rdzv-conf=node_timeout=5,settle=0)\n";
  for (const timer_row& row : timer_table) {
    text +=
        cli::help_line(std::string(row.name) + "=" + seconds_text(timers().*row.field), row.help);
  }
  return text;
}

}  // namespace

std::string help_text() {
  std::string text(usage);
  for (const char* const heading :
       {"Size", "Rendezvous", "Hosts", "This node", "Failures", "Workers", "Output of workers"})
    text += options_under(heading);
  text += std::string(of_arguments) + timers_help() + options_under("Output of ddprun") +
          options_under("Others");
  return text + std::string(exit_codes);
}

std::string version_text() {
  return "ddprun " + std::string(version) + "\n";
}

}  // namespace ddprun::launcher
