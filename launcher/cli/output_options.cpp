#include "launcher/cli/output_options.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/core/messages/settings.hpp"

#include <optional>

namespace ddprun::launcher {
namespace {

std::optional<std::uint32_t> local_rank_of(std::string_view text) {
  const auto number = whole_number<std::uint32_t>(text);
  return number && *number < workers_per_node_max ? number : std::nullopt;
}

std::optional<stream_set> streams_of(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return {};
  const int bits = text[0] - '0';
  return stream_set{(bits & 1) != 0, (bits & 2) != 0};
}

}  // namespace

stream_set stream_choice::of(std::uint32_t local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? all : found->second;
}

bool stream_choice::none() const {
  for (const auto& [rank, streams] : by_rank) {
    if (!streams.none()) return false;
  }
  return all.none();
}

cli::parsed<stream_choice> read_streams(std::string_view given, std::string_view text) {
  stream_choice choice;
  if (const auto all = streams_of(text)) {
    choice.all = *all;
    return choice;
  }
  for (const std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    const auto rank = local_rank_of(part.substr(0, colon));
    const auto streams =
        streams_of(colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1));
    if (!rank || !streams) {
      return cli::wrong(given,
                        "write 0 (none), 1 (stdout), 2 (stderr) or 3 (both), for all workers of "
                        "this node or by local rank, as in 0:3,1:2");
    }
    choice.by_rank[*rank] = *streams;
  }
  return choice;
}

cli::parsed<std::set<std::uint32_t>> read_local_ranks(std::string_view given,
                                                      std::string_view text) {
  std::set<std::uint32_t> ranks;
  if (text.empty()) return ranks;
  for (std::string_view part : split(text, ',')) {
    while (part.starts_with(' '))
      part.remove_prefix(1);
    while (part.ends_with(' '))
      part.remove_suffix(1);
    const auto rank = local_rank_of(part);
    if (!rank) return cli::wrong(given, "write local ranks with commas between, as in 0,1,2");
    ranks.insert(*rank);
  }
  return ranks;
}

std::vector<std::string> read_filters(std::string_view text) {
  std::vector<std::string> filters;
  std::string part;
  const auto end_part = [&] {
    if (!part.empty()) filters.push_back(part);
    part.clear();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',') {
      part += text[at];
    } else if (text.substr(at).starts_with(",,")) {
      part += text[at++];
    } else {
      end_part();
    }
  }
  end_part();
  return filters;
}

}  // namespace ddprun::launcher
