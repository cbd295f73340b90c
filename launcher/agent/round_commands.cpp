#include "launcher/agent/round_commands.hpp"

#include "launcher/network/free_port.hpp"
#include "launcher/output/own_terminal.hpp"
#include "rendezvous/net/host_name.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// The part of a worker's route that does not depend on the worker.
struct routing {
  const launch_options& options;
  const environment_map& environment;
  const log_folder& logs;
};

log_route route_of(const routing& with, const worker_command& of, log::output_stream stream,
                   const std::string& prefix) {
  const output_options& output = with.options.output;
  log_route to = with.logs.route(output, of.local_rank, stream, prefix);
  const bool is_terminal = ::isatty(stream == log::output_stream::output ? 1 : 2) == 1;
  if (is_colored(output.color, is_terminal, with.environment)) {
    to.prefix_color = color_of_rank(of.rank);
  }
  to.terminal = terminal_of_worker(output.pty, of.rank, to, own_terminal::size_of(stream));
  return to;
}

}  // namespace

std::vector<worker_command> commands_of_round(const launch_options& options,
                                              const worker_round& round,
                                              const environment_map& inherited,
                                              const log_folder& logs,
                                              const std::vector<std::vector<int>>& processors) {
  const std::string host_name = net::full_host_name();
  const std::vector<std::uint16_t> free_ports =
      unused_kernel_ports(wants_free_port(options) ? round.worker_count : 0);
  const routing with{options, inherited, logs};
  std::vector<worker_command> commands;
  commands.reserve(round.worker_count);
  for (std::uint32_t local_rank = 0; local_rank < round.worker_count; ++local_rank) {
    const std::uint16_t free_port = free_ports.empty() ? 0 : free_ports[local_rank];
    worker_command command;
    command.argv = worker_command_line(options, round, local_rank, free_port);
    command.environment = to_entries(worker_environment(options, round, local_rank, inherited));
    if (!processors.empty()) command.processors = processors.at(local_rank);
    command.local_rank = local_rank;
    command.rank = round.assignment.rank_first + local_rank;
    const std::string prefix = worker_line_prefix(options, round, local_rank, host_name);
    command.output = route_of(with, command, log::output_stream::output, prefix);
    command.errors = route_of(with, command, log::output_stream::errors, prefix);
    commands.push_back(std::move(command));
  }
  return commands;
}

bool uses_terminal(const std::vector<worker_command>& commands) {
  return std::any_of(commands.begin(), commands.end(), [](const worker_command& one) {
    return one.output.terminal || one.errors.terminal;
  });
}

}  // namespace ddprun::launcher
