#include "launcher/hosts/ssh/agent_end.hpp"

#include "launcher/base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace ddprun::launcher::ssh {
namespace {

using core::leave_reason;

constexpr std::array<std::pair<leave_reason, std::string_view>, 4> words = {{
    {leave_reason::run_over, "over"},
    {leave_reason::drained, "drained"},
    {leave_reason::refused, "refused"},
    {leave_reason::unmet, "unmet"},
}};

}  // namespace

std::string agent_end_text(const agent_end& end) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const auto& each) { return each.first == end.why; });
  return std::to_string(end.code) + " " + std::string(found->second);
}

std::optional<agent_end> read_agent_end(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto code = whole_number<int>(parts[0]);
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const auto& each) { return each.second == parts[1]; });
  if (!code || found == words.end()) return std::nullopt;
  return agent_end{*code, found->first};
}

}  // namespace ddprun::launcher::ssh
