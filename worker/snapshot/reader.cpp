#include "worker/snapshot/reader.hpp"

#include "worker/snapshot/history.hpp"
#include "worker/snapshot/reading.hpp"
#include "worker/snapshot/sharded_tensors.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace ddprun::worker {
namespace {

// For snapshots that are removed while they are read; a job saves more slowly than that.
constexpr int reads_max = 100;

std::optional<failure> read(const snapshot_reading& from, resumed_snapshot& found) {
  found = from.begin();
  for (const std::uint32_t rank : from.content().replicated) {
    auto file = from.file(rank, true);
    if (auto* wrong = std::get_if<failure>(&file)) return std::move(*wrong);
    auto& read = std::get<rank_file>(file);
    add_share(found.replicated, std::move(read.replicated));
    found.bytes.push_back(std::move(read.mapping));
  }
  if (!from.content().has_pieces) return std::nullopt;
  // All of them at once: the job may remove them while its evaluation goes on.
  const auto pieces = from.pieces(0, true);
  std::string problem;
  if (auto error = pieces->open_all(problem)) return failure{error, problem};
  found.sharded = pieces;
  return std::nullopt;
}

// The manifest is removed first.
bool is_gone(file_system& files, const std::string& path) {
  const auto names = list_names(files, path);
  return names ? !names->contains(manifest_name) : has_vanished(names.error());
}

}  // namespace

result<std::optional<resumed_snapshot>> read_newest_snapshot(const std::string& folder,
                                                             std::string& problem,
                                                             const reader_options& options) {
  file_system& files = *options.files;
  std::string last;
  const auto say = [&](const std::string& line) {
    if (!last.empty()) options.on_message(last);
    last = line;
  };
  history_options looking;
  looking.distrust = false;
  looking.is_reader = true;
  snapshot_history history(files, folder, claimant(), generation_limit, looking, say);
  for (int attempt = 0; attempt < reads_max; ++attempt) {
    const auto newest = history.newest();
    if (!newest) {
      problem = last;
      return newest.error();
    }
    if (!last.empty()) options.on_message(std::exchange(last, ""));
    if (!*newest) return std::optional<resumed_snapshot>();
    const auto order = (*newest)->order();
    const std::string path = folder + "/" + snapshot_name(order);
    snapshot_reading reading(files, path);
    resumed_snapshot found;
    auto wrong = reading.open(order);
    if (!wrong) wrong = read(reading, found);
    if (!wrong) return std::optional<resumed_snapshot>(std::move(found));
    if (is_gone(files, path)) continue;  // its job has newer ones
    if (wrong->code != errc::damaged) {
      problem = "snapshot " + path + " cannot be read: " + wrong->text;
      return wrong->code;
    }
    history.skip(order, wrong->text);
  }
  problem = "the snapshots in " + folder + " are removed faster than they can be read";
  return make_error_code(errc::timed_out);
}

}  // namespace ddprun::worker
