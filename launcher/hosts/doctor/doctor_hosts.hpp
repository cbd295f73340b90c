// `ddprun doctor -H node1,node2`: the same doctor on each of these hosts, as a job of one worker a
// host that `ddprun -H` starts. The hosts meet in the store of the job's own round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// Where they meet on the first host, if --master-port does not say: none of those that the kernel
// hands out, which the doctor would warn of.
inline constexpr std::uint16_t hosts_meeting_port = 29357;

// The command line of that job, where `words`, those of ddprun, are "doctor" and options that name
// hosts: the doctor's own options go to each of the hosts, and the others stay here. Nothing where
// they are anything else.
std::optional<std::vector<std::string>> words_for_hosts(const std::vector<std::string>& words);

}  // namespace ddprun::launcher::doctor
