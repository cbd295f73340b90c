#include "launcher/agent/leftover_text.hpp"

#include <cstddef>

namespace ddprun::launcher {
namespace {

std::string counted_processes(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t named_max = 8;
  std::string text;
  for (std::size_t index = 0; index < names.size() && index < named_max; ++index)
    text += (index == 0 ? "" : ", ") + names[index];
  return names.size() > named_max ? text + ", ..." : text;
}

}  // namespace

leftover_line children_line(const worker_group::left_behind& left, std::optional<duration> grace) {
  const bool is_one = left.processes.size() == 1;
  std::string text = (left.rank ? "rank " + std::to_string(*left.rank) : "workers") +
                     " succeeded and left " + counted_processes(left.processes.size()) + " behind";
  if (!left.rank) text += is_one ? " in a session of its own" : " in sessions of their own";
  text += ": " + list_of(left.processes);
  note_level level = note_level::info;
  switch (left.what) {
    case workers::leftover_state::spared:
      text += "; this node waits for " + std::string(is_one ? "it" : "them") + ", " +
              to_text(*grace) + " at most (--children-grace)";
      break;
    case workers::leftover_state::ended:
      level = note_level::warning;
      text += "; " + std::string(is_one ? "it is" : "they are") + " killed";
      text += *grace == duration::zero()
                  ? " (--children-grace=0)"
                  : ", as " + to_text(*grace) + " have passed (--children-grace)";
      break;
    case workers::leftover_state::stopped:
      level = note_level::warning;
      text +=
          "; " + std::string(is_one ? "it is" : "they are") + " killed, because the round is over";
      break;
    case workers::leftover_state::kept:
      text += "; " + std::string(is_one ? "it is" : "they are") +
              " left running (--children-grace=keep), and " + (is_one ? "its" : "their") +
              " output is lost";
      break;
  }
  return {level, text};
}

leftover_line strays_line(const std::vector<std::string>& strays) {
  return {note_level::error,
          counted_processes(strays.size()) +
              (strays.size() == 1 ? " that a worker" : " that workers") +
              " left behind cannot be killed (stuck in the kernel): " + list_of(strays)};
}

}  // namespace ddprun::launcher
