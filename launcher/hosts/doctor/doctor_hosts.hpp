// `ddprun doctor -H node1,node2` runs the doctor on each of these hosts, as a job with one worker
// per host that `ddprun -H` starts. They meet in the store of the job's round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// Where they meet on the first host unless --master-port says otherwise. It is outside the kernel's
// port range, about which the doctor would warn.
inline constexpr std::uint16_t hosts_meeting_port = 29357;

// The command line of that job, if `words`, ddprun's arguments, are "doctor" and options that name
// hosts: the doctor's own options go to each host, the others apply here. Empty for anything else.
std::optional<std::vector<std::string>> words_for_hosts(const std::vector<std::string>& words);

}  // namespace ddprun::launcher::doctor
