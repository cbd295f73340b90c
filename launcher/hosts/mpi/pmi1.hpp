// PMI-1: the line protocol between hydra (MPICH, Intel MPI), Flux and others and their processes,
// over an inherited descriptor (PMI_FD) or a port (PMI_PORT, PMI_ID).
//
// A line is "cmd=NAME key=value ..." and a line end; each gets one answer. No library is needed.
//
// Errors: what the launcher has said, or that it does not answer.
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

// Reads a line without its end. Errors: not a PMI-1 line; the answer to another command; its "rc"
// is not 0.
cli::parsed<pmi1_fields> read_pmi1_answer(std::string_view line, std::string_view command);

class pmi1_exchange final : public exchange {
 public:
  // Opens what the environment names, and initialises it. Takes over the descriptor in PMI_FD.
  static cli::parsed<std::unique_ptr<pmi1_exchange>> open(const environment_map& environment,
                                                          deadline until);
  // Initialises a connection. `id` is this process's, if the connection is to a port.
  static cli::parsed<std::unique_ptr<pmi1_exchange>> begin(unique_fd connection, deadline until,
                                                           const std::string& id = {});

  // What the launcher has said at a port; otherwise empty.
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
  std::string space_;  // the launcher's name for the key-value space
  std::optional<std::uint32_t> rank_;
  std::optional<std::uint32_t> size_;
};

}  // namespace ddprun::launcher::hosts::mpi
