// PMIx: the exchange of OpenMPI 4 and 5, and of what else speaks it. It needs the launcher's own
// library, libpmix, which is opened at run time and never linked.
//
// That library has threads, signal handlers and buffers of its own. So it lives in a child process,
// which takes leave and ends before the agent begins; a launcher knows its members by name, not by
// process.
//
// Thread rule: before the first thread of this process (it forks).
// Source of the declarations: pmix.h and pmix_common.h of PMIx 4.2; the PMIx standard's ABI since
// version 3.
#pragma once

#include "launcher/hosts/mpi/ancestors.hpp"
#include "launcher/hosts/mpi/meeting.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

// Where libpmix may be, the best guess first: the very file that the launcher's own process has
// loaded, the folders of its installation, and what the loader finds.
std::vector<std::string> pmix_library_places(const environment_map& environment,
                                             const ancestors& above,
                                             const std::string& proc = "/proc");

// A libpmix that could be opened; null: there is none here.
std::shared_ptr<void> open_pmix_library(const std::vector<std::string>& places);

// As `meet`, in a child process; nothing where no libpmix can be opened. Errors: also that the
// child has not answered by the deadline.
cli::parsed<std::optional<meeting>> meet_by_pmix(const std::vector<std::string>& places,
                                                 std::uint32_t rank, std::uint32_t size,
                                                 const host_words& host, deadline until);

// Runs `ask` in a child process, and brings its answer home. Errors: those of `ask`; that the child
// has ended without an answer, or has none by the deadline (it is killed then).
cli::parsed<std::string> ask_in_child(const std::function<cli::parsed<std::string>()>& ask,
                                      deadline until);

}  // namespace ddprun::launcher::hosts::mpi
