#include "launcher/evidence/py_spy.hpp"

#include "launcher/base/text.hpp"
#include "launcher/process/program_answer.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <optional>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t answer_bytes_max = 32 * 1024;
constexpr std::size_t shown_bytes_max = 200;

std::optional<stack_frame> frame_in(std::string_view line) {
  if (!line.starts_with("    ") || !line.ends_with(')')) return std::nullopt;
  line.remove_prefix(4);
  line.remove_suffix(1);
  const std::size_t open = line.find(" (");
  const std::size_t colon = line.rfind(':');
  if (open == std::string_view::npos || colon == std::string_view::npos || colon < open)
    return std::nullopt;
  const auto number = whole_number<std::uint32_t>(line.substr(colon + 1));
  if (!number) return std::nullopt;
  return stack_frame{std::string(line.substr(open + 2, colon - open - 2)), *number,
                     std::string(line.substr(0, std::min(open, shown_bytes_max)))};
}

}  // namespace

std::string ask_py_spy(pid_t pid, const environment_map& environment, duration limit) {
  return in_lines(to_valid_utf8(
      program_answer({"py-spy", "dump", "--nonblocking", "--pid", std::to_string(pid)}, environment,
                     limit, answer_bytes_max)));
}

std::vector<stack_frame> main_stack_of_py_spy(std::string_view text) {
  std::vector<stack_frame> stack;
  bool is_main = false;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("Thread ")) {
      if (is_main) break;
      is_main = line.ends_with("\"MainThread\"");
      continue;
    }
    const auto frame = frame_in(line);
    if (is_main && frame && stack.size() < frames_max) stack.push_back(*frame);
  }
  return stack;
}

}  // namespace ddprun::launcher::evidence
