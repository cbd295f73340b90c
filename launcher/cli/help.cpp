#include "launcher/cli/help.hpp"

#include "rendezvous/base/version.hpp"
#include "rendezvous/core/messages/settings_table.hpp"

namespace ddprun {
namespace {

constexpr std::string_view before_timers = R"(usage: ddprun [OPTIONS] SCRIPT [ARGUMENTS]

Starts the workers of a distributed training job on this node, lets the nodes of the job find each
other, and starts all workers again when one fails. Run it once on every node. Options are
torchrun's; '-' and '_' in their names are the same, and PET_<NAME> in the environment gives the
default (PET_NPROC_PER_NODE=4).

  ddprun --nproc-per-node=2 train.py --epochs 10                     one node
  ddprun --nnodes=2 --nproc-per-node=gpu --rdzv-endpoint=node0 \
         --rdzv-id=job7 --max-restarts=3 train.py                    the same on both nodes
  ddprun --nproc-per-node=4 --no-python ./build/bin/train            a plain program

Size
  --nnodes=N | MIN:MAX         nodes of the run; MIN:MAX: starts with MIN, grows to MAX (1)
  --nproc-per-node=N | auto | cpu | gpu
                               workers on this node; auto: one per GPU, else per processor (1)
  --spares=N                   further nodes that may wait and step in (0)

Rendezvous
  --rdzv-endpoint=HOST[:PORT]  where the rendezvous daemon is or will be, the same on all nodes;
                               IPv6 as [ADDRESS]:PORT (port 29400)
  --rdzv-id=ID                 name of the run, the same on all nodes (none)
  --rdzv-backend=c10d          the only one so far
  --rdzv-conf=KEY=VALUE,...    the timers below; and torchrun's is_host, keep_alive_interval,
                               keep_alive_max_attempt
  --standalone                 one node, with a daemon of its own; also what one node without
                               an endpoint means
  --embed-daemon=auto | always | never
                               run the daemon in this process; auto: when the endpoint is this
                               host and nobody listens there yet (auto)

This node
  --node-id=NAME               how messages call it (host name and a suffix)
  --node-rank=N                hint for the order of ranks
  --local-addr=ADDRESS         the address under which other nodes reach it (found out)
  --master-port=PORT           fixed MASTER_PORT (a new one each round)

Failures
  --max-restarts=N             restarts of all workers after a failure, for the whole run (0)
  --max-node-losses=N          lost nodes within an hour that do not end the run (10)
  --on-join=wait | restart     a node that joins a run under way waits for the next round, or
                               starts it (wait)
  --shutdown-timeout=SECONDS   from SIGTERM to SIGKILL after a failure, as stop_grace (5)

Workers
  -m, --module                 SCRIPT is a Python module, as with python -m
  --no-python                  SCRIPT is a program, executed as it is
  --role=NAME                  ROLE_NAME of the workers (default)
  --store=agent | worker       who serves TCPStore at MASTER_ADDR:MASTER_PORT: ddprun, or the
                               worker with rank 0 (agent; worker for a script that is told another
                               tcp:// address, when its PyTorch is older than 2.14)

  --placeholders=on | torchrun what is replaced in ARGUMENTS: all of those below, or only
                               torchrun's ${local_rank} (on)

  Python is $PYTHON_EXEC, else the active virtual environment's, else python3. ARGUMENTS may hold
  {rank} {local_rank} {group_rank} {world_size} {nnodes} {master_addr} {master_port} {master_url}
  {free_port} and ${local_rank}; {{rank}} is {rank}. Other braces, and ${rank}, stay as they are.

Timers, in seconds (--rdzv-conf=node_timeout=5,settle=0)
)";

constexpr std::string_view after_timers = R"(
Others
  --log-level=debug | info | warning | error
                               ddprun's own lines on standard error (info)
  --master-addr=ADDRESS        with one node the same as --local-addr, else ignored
  --monitor-interval=SECONDS   ignored: ddprun does not poll its workers
  -h, --help                   this text
  --version                    the version

Exit code: 0 when every worker ended with 0; that of the first worker that failed, or 128 plus its
signal; 2 for a mistake on the command line; 64 when the run refuses this node.
)";

constexpr std::size_t column = 31;

std::string timers_help() {
  std::string text;
  for (const timer_row& row : timer_table) {
    std::string line = "  " + std::string(row.name) + "=" + value_text(row, timers());
    line.resize(column, ' ');
    text += line + std::string(row.help) + "\n";
  }
  return text;
}

}  // namespace

std::string help_text() {
  return std::string(before_timers) + timers_help() + std::string(after_timers);
}

std::string version_text() {
  return "ddprun " + std::string(version) + "\n";
}

}  // namespace ddprun
