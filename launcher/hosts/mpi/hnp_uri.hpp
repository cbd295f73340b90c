// mpirun's address, which OpenMPI 4 leaves in OMPI_MCA_orte_hnp_uri: where the nodes meet if
// nothing better is available. Rank 0 must then be on mpirun's own host.
//
// Source: OpenMPI 4.1, "JOB.0;tcp://10.0.0.1,172.17.0.1:55137;tcp6://[fd00::2]:41011", as observed.
#pragma once

#include "launcher/hosts/mpi/mpi_meeting.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

// All its addresses in order; empty: malformed.
std::vector<address> addresses_of_mpirun(std::string_view uri);

// The same on all ranks, because all have the same uri: its first address that other hosts can use,
// and a port and a run id computed from it. Errors: there is no such address, or rank 0 is not on
// that host.
cli::parsed<meeting> meet_at_mpirun(std::string_view uri, std::uint32_t rank,
                                    const host_facts& host);

}  // namespace ddprun::launcher::hosts::mpi
