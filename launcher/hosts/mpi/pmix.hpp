// PMIx: the exchange of OpenMPI 4 and 5 and others. It needs the launcher's own library, libpmix,
// which is opened at run time and never linked.
//
// That library has threads, signal handlers and buffers of its own. So it runs in a child process,
// which leaves in order and ends before the agent starts; a launcher knows its members by name and
// not by process.
//
// Thread rule: before the first thread of this process (it forks).
// Source of the declarations: pmix.h and pmix_common.h of PMIx 4.2; the PMIx standard's ABI since
// version 3.
#pragma once

#include "launcher/hosts/mpi/ancestors.hpp"
#include "launcher/hosts/mpi/mpi_meeting.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

// Possible paths of libpmix, the best first: the file that the launcher's own process has loaded,
// the folders of its installation, and what the loader finds.
std::vector<std::string> pmix_library_places(const environment_map& environment,
                                             const ancestors& above,
                                             const std::string& proc = "/proc");

// The first libpmix that can be opened; null: there is none here.
std::shared_ptr<void> open_pmix_library(const std::vector<std::string>& places);

// Like `meet`, in a child process; empty if no libpmix can be opened. Errors include a child that
// has not answered by the deadline.
cli::parsed<std::optional<meeting>> meet_by_pmix(const std::vector<std::string>& places,
                                                 std::uint32_t rank, std::uint32_t size,
                                                 const host_facts& host, deadline until);

// Runs `ask` in a child process, and returns its answer. Errors: those of `ask`; a child that ends
// without an answer; a child without an answer by the deadline, which is killed.
cli::parsed<std::string> ask_in_child(const std::function<cli::parsed<std::string>()>& ask,
                                      deadline until);

}  // namespace ddprun::launcher::hosts::mpi
