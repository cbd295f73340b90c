// What ranks tell each other about snapshots, as text (JSON): see rank_exchange.hpp.
//
// A text that no rank of this version writes reads as a failure that says so.
//
// Pure. Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/manifest.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::worker {

struct failure {
  error_code code;
  std::string text;  // one line for a person
  // The ranks have lost each other, or a newer round has the folder: no later save can succeed.
  bool is_final = false;
  // It may be a snapshot all the same: its files must stay.
  bool may_be_there = false;
};

// A rank has written its file.
struct written_file {
  file_record record;
  std::uint64_t deal = 0;   // the checksum of who writes what: dealt_tensors
  bool has_pieces = false;  // of tensors that ranks have together
};
using written_word = std::variant<written_file, failure>;
std::string to_text(const written_word& word);
written_word parse_written(std::string_view text);

// A rank has what it is to go on from, or rank 0 has settled what became of a snapshot: or not.
using outcome_word = std::optional<failure>;
std::string to_text(const outcome_word& word);
outcome_word parse_outcome(std::string_view text);

// Rank 0 has made a snapshot of all files, or not; and which older ones go, of which each rank
// removes what is its own (history.hpp).
struct committed_word {
  outcome_word outcome;
  std::vector<snapshot_order> going;
};
std::string to_text(const committed_word& word);
committed_word parse_committed(std::string_view text);

// A rank has read its files, but these, which another one may be able to; or rank 0 says that all
// is read, or that the next ranks are to try these.
struct reading_word {
  outcome_word outcome;
  std::vector<std::uint32_t> files;  // by the ranks that have written them
};
std::string to_text(const reading_word& word);
reading_word parse_reading(std::string_view text);

// Rank 0 says from where all go on.
struct choice {
  std::uint64_t generation = 0;        // of the round that begins
  std::optional<snapshot_order> from;  // none: from the beginning
  std::vector<snapshot_order> going;   // never finished: each rank removes what is its own
};
using choice_word = std::variant<choice, failure>;
std::string to_text(const choice_word& word);
choice_word parse_choice(std::string_view text);

// Several ranks' failures in one: that of the lowest rank, and how many more there are. A failure
// that is no damage counts before one that is. It is final, or may be there, where one of them is.
// None: there are none.
std::optional<failure> worst_of(const std::vector<outcome_word>& by_rank);

}  // namespace ddprun::worker
