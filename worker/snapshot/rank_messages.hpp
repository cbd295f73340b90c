// The messages that ranks exchange about snapshots, as text (JSON): see rank_exchange.hpp.
//
// A text that no rank of this version writes is parsed as a failure that says so.
//
// Pure. Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/manifest.hpp"

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::worker {

struct failure {
  error_code code;
  std::string text;  // one line for a person
  // The ranks have lost each other, or a newer round has the folder, so no later save can succeed.
  bool is_final = false;
  // The snapshot may exist nevertheless, so its files must stay.
  bool may_be_there = false;
};

// A tensor's copy, or what else `doing` says, has thrown: "cannot fetch the state: ...", in one
// line, without the stack of frames that follows in LibTorch's errors.
failure has_thrown(const std::string& doing, const std::exception& error);

// A rank has written its file.
struct written_file {
  file_record record;
  std::uint64_t deal = 0;   // the checksum of who writes what: dealt_tensors
  bool has_pieces = false;  // of tensors that are spread over the ranks
};
using written_word = std::variant<written_file, failure>;
std::string to_text(const written_word& word);
written_word parse_written(std::string_view text);

// A rank has (or has not) what it resumes from, or rank 0 has settled the fate of a snapshot.
using outcome_word = std::optional<failure>;
std::string to_text(const outcome_word& word);
outcome_word parse_outcome(std::string_view text);

// All ranks have written what they save in their vaults, or why not, and whether rank 0 has tensors
// there of which all ranks get its own.
struct in_vaults_word {
  outcome_word outcome;
  bool has_rank_0s = false;
};
std::string to_text(const in_vaults_word& word);
in_vaults_word parse_in_vaults(std::string_view text);

// Rank 0 has (or has not) committed the snapshot, and lists older ones that are removed, of which
// each rank removes its own files (history.hpp).
struct committed_word {
  outcome_word outcome;
  std::vector<snapshot_order> going;
};
std::string to_text(const committed_word& word);
committed_word parse_committed(std::string_view text);

// The result of reading. A rank lists the files that it could not read, but another one may be able
// to; rank 0 lists the files that the next ranks are to try.
struct reading_word {
  outcome_word outcome;
  std::vector<std::uint32_t> files;  // by the rank that has written them
};
std::string to_text(const reading_word& word);
reading_word parse_reading(std::string_view text);

// Rank 0 chooses the snapshot that all ranks resume from.
struct choice {
  std::uint64_t generation = 0;        // of the round that begins
  std::optional<snapshot_order> from;  // none: start from the beginning
  std::vector<snapshot_order> going;   // unfinished; each rank removes its own files
  bool is_in_vault = false;            // of each node: vault_tier.hpp
};
using choice_word = std::variant<choice, failure>;
std::string to_text(const choice_word& word);
choice_word parse_choice(std::string_view text);

// Combines the failures of several ranks: the lowest rank's, with the number of others. A failure
// that is not damage takes precedence over damage. It is final, or may be there, if one of them is.
// None if no rank has failed.
std::optional<failure> worst_of(const std::vector<outcome_word>& by_rank);

}  // namespace ddprun::worker
