// PMI-1: the line protocol by which hydra (MPICH, Intel MPI), Flux and others speak to their
// processes, over a descriptor that they inherit (PMI_FD) or a port (PMI_PORT, PMI_ID).
//
// A line is "cmd=NAME key=value ..." and a line end; each has one answer. No library is needed.
//
// Errors: what the launcher has said, or that it says nothing.
// Source: src/pmi/simple/simple_pmi.c and src/pm/hydra/proxy/pmip_pmi_v1.c of MPICH 4.0.
#pragma once

#include "launcher/hosts/mpi/exchange.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::hosts::mpi {

using pmi1_fields = std::map<std::string, std::string, std::less<>>;

// A line without its end. Errors: it is no line of PMI-1; it is another command's answer; its "rc"
// is not 0.
cli::parsed<pmi1_fields> read_pmi1_answer(std::string_view line, std::string_view command);

class pmi1_exchange final : public exchange {
 public:
  // Opens what the environment names, and says hello. Takes the descriptor of PMI_FD over.
  static cli::parsed<std::unique_ptr<pmi1_exchange>> open(const environment_map& environment,
                                                          deadline until);
  // Says hello on a connection. `id`: of this process, where the connection is one to a port.
  static cli::parsed<std::unique_ptr<pmi1_exchange>> begin(unique_fd connection, deadline until,
                                                           const std::string& id = {});

  // As the launcher has said at a port; else empty.
  std::optional<std::uint32_t> rank() const { return rank_; }
  std::optional<std::uint32_t> size() const { return size_; }

  cli::checked put(const std::string& key, const std::string& value) override;
  cli::checked fence() override;
  cli::parsed<std::string> get(std::uint32_t rank, const std::string& key) override;
  cli::checked finish() override;

 private:
  pmi1_exchange(unique_fd connection, deadline until)
      : connection_(std::move(connection)), until_(until) {}

  cli::checked send(std::string line);
  cli::parsed<std::string> next_line();
  cli::parsed<pmi1_fields> ask(const std::string& line, std::string_view answer);
  cli::checked acknowledge(const std::string& id);
  cli::checked greet();
  cli::checked wait_for(short events, std::string_view what) const;

  unique_fd connection_;
  deadline until_;
  std::string received_;
  std::string space_;  // the launcher's name for the board
  std::optional<std::uint32_t> rank_;
  std::optional<std::uint32_t> size_;
};

}  // namespace ddprun::launcher::hosts::mpi
