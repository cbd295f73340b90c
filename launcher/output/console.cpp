#include "launcher/output/console.hpp"

#include "launcher/report/failure_text.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <string_view>
#include <utility>

namespace ddprun::launcher {

console::console(std::string node, std::string run_id, cli::log_options options,
                 std::function<void(std::string)> sink)
    : origin_{"ddprun", std::move(node), std::move(run_id)},
      options_(options),
      sink_(std::move(sink)) {}

std::string console::beginning(const timespec& now) const {
  const std::string time = log::time_text(options_.style.time, now);
  return "ddprun " + origin_.node + (time.empty() ? "" : " " + time) + ": ";
}

std::optional<std::string> console::state_line(const std::string& text, std::size_t columns) const {
  constexpr std::string_view cut = "...";
  if (options_.least > note_level::info || options_.style.format == log_format::json) return {};
  if (columns <= cut.size() + 1) return {};
  std::string line = beginning(log::wall_clock()) + text;
  // In the last column the cursor would move to the next line.
  if (line.size() < columns) return line;
  return std::string(first_of(line, columns - 1 - cut.size())).append(cut);
}

void console::say(note_level level, const std::string& text) {
  if (level < options_.least) return;
  const timespec now = log::wall_clock();
  if (options_.style.format == log_format::json) {
    return sink_(log::json_line(origin_, options_.style.time, now, level, round_, text));
  }
  std::string line = beginning(now);
  if (level >= note_level::warning) line += log::level_mark(level, is_colored_) + " ";
  sink_(line + text + "\n");
}

bool console::show_failure(const cause& root_cause) {
  const bool is_workers = root_cause.rank.has_value();
  if (!is_workers || (root_cause.tail.empty() && root_cause.kind != cause_class::signal)) {
    return false;
  }
  if (tail_round_ == root_cause.round && tail_rank_ == root_cause.rank) return false;
  tail_round_ = root_cause.round;
  tail_rank_ = root_cause.rank;
  // One message, with node and time once, keeps a merged log readable.
  std::string text = core::describe(root_cause);
  for (const std::string& line : failure_lines(root_cause))
    text.append("\n").append(log::detail_mark).append(line);
  say(note_level::warning, text);
  return true;
}

}  // namespace ddprun::launcher
