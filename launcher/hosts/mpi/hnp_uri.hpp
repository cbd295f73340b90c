// The address of mpirun that OpenMPI 4 leaves in OMPI_MCA_orte_hnp_uri: where the nodes meet when
// nothing better is to be had, as rank 0 has to be on mpirun's own host then.
//
// Source: OpenMPI 4.1, "JOB.0;tcp://10.0.0.1,172.17.0.1:55137;tcp6://[fd00::2]:41011", as seen.
#pragma once

#include "launcher/hosts/mpi/meeting.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

// All addresses in it, in its order; empty: it is no such text.
std::vector<address> addresses_of_mpirun(std::string_view uri);

// The same on all ranks, as all have the same uri: its first address for other hosts, a port and a
// run id that are drawn from it. Errors: it has no address; rank 0 is not there.
cli::parsed<meeting> meet_at_mpirun(std::string_view uri, std::uint32_t rank,
                                    const host_words& host);

}  // namespace ddprun::launcher::hosts::mpi
