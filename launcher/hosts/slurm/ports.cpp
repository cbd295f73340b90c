#include "launcher/hosts/slurm/ports.hpp"

namespace ddprun::launcher::slurm {
namespace {

constexpr std::uint64_t first_port = 61'440;
constexpr std::uint64_t port_count = 4'096;

// Odd, so that no two of 4096 steps, or of the alternatives, start at the same port; large, so that
// they do not collide with those of the next jobs.
constexpr std::uint64_t between_steps = 1'021;
constexpr std::uint64_t between_tries = 1'365;

}  // namespace

std::vector<std::uint16_t> meeting_ports(std::uint64_t job, std::uint64_t step) {
  std::vector<std::uint16_t> ports;
  for (std::uint64_t turn = 0; turn < meeting_ports_count; ++turn) {
    const std::uint64_t at =
        job % port_count + step % port_count * between_steps + turn * between_tries;
    ports.push_back(static_cast<std::uint16_t>(first_port + at % port_count));
  }
  return ports;
}

}  // namespace ddprun::launcher::slurm
