#include "launcher/report/round_box.hpp"

#include "launcher/report/failure_text.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::launcher {
namespace {

// The most ranks that one list holds; a world of 80,000 fits.
constexpr std::uint32_t ranks_max = 100'000;

// What is said together about ranks that ended in the same way.
struct alike {
  std::vector<std::uint32_t> ranks;  // without the rank of the root cause
  std::optional<end_times> after;    // of the ranks whose times are known
  int code = 0;                      // if the ranks ended the same way: as in ended_ranks
};

void add_times(std::optional<end_times>& all, const std::optional<end_times>& more) {
  if (!more) return;
  if (!all) all = more;
  all->first = std::min(all->first, more->first);
  all->last = std::max(all->last, more->last);
}

alike ended_alike(const round_report& report, ending how) {
  alike found;
  bool is_first_part = true;
  for (const ended_ranks& part : report.ends) {
    if (part.how != how) continue;
    const std::size_t before = found.ranks.size();
    for (std::uint64_t rank = part.first; rank <= part.last && found.ranks.size() < ranks_max;
         ++rank) {
      const bool is_first = report.root_cause && report.root_cause->rank == rank;
      if (!is_first) found.ranks.push_back(static_cast<std::uint32_t>(rank));
    }
    if (found.ranks.size() == before) continue;
    add_times(found.after, part.after);
    found.code = is_first_part || found.code == part.code ? part.code : 0;
    is_first_part = false;
  }
  return found;
}

// Formats " after 8.2 s" or " after 8.2 s to 9.1 s".
std::string after_text(const std::optional<end_times>& after) {
  if (!after) return {};
  const std::string first = to_text(after->first);
  const std::string last = to_text(after->last);
  return " after " + first + (first == last ? "" : " to " + last);
}

std::string code_text(int code) {
  if (code == 0) return {};
  return code > 0 ? " (exit code " + std::to_string(code) + ")" : " (" + signal_name(-code) + ")";
}

struct words {
  ending how;
  const char* one;
  const char* more;
};
constexpr words endings[] = {
    {ending::failed, " failed too", " failed too"},
    {ending::secondary, " ended because of it", " ended because of it"},
    {ending::lost, " was lost with its node", " were lost with their nodes"},
    {ending::killed, " had to be killed", " had to be killed"},
    {ending::stopped, " was stopped", " were stopped"},
    {ending::succeeded, " had succeeded", " had succeeded"},
};

// If every reported rank gave up waiting, the suspects are the ranks that reported nothing.
std::string silent_text(const round_report& report) {
  const cause& first = *report.root_cause;
  if (!first.is_secondary) return {};
  const failure_text said = read_failure(first);
  if (said.known == nullptr || said.known->from != follows::silence) return {};
  std::vector<std::uint32_t> ranks = ended_alike(report, ending::stopped).ranks;
  for (const std::uint32_t rank : ended_alike(report, ending::killed).ranks)
    ranks.push_back(rank);
  if (ranks.empty()) return {};
  std::sort(ranks.begin(), ranks.end());
  return text_of_ranks(ranks) + (ranks.size() == 1 ? " was" : " were") +
         " still at work when the others gave up waiting: look there first";
}

// When the root cause ended, " after 8.2 s", if that is known for it alone.
std::string first_after_text(const round_report& report) {
  for (const ended_ranks& part : report.ends) {
    const std::optional<std::uint32_t>& rank = report.root_cause->rank;
    if (!rank || *rank < part.first || *rank > part.last || !part.after) continue;
    const std::string text = after_text(part.after);
    if (text.find(" to ") == std::string::npos) return text;
  }
  return {};
}

std::string facts_text(const round_report& report) {
  const cause& first = *report.root_cause;
  std::string text = first.process != 0 ? "process " + std::to_string(first.process) : "";
  const std::string after = first_after_text(report);
  if (!after.empty()) text += (text.empty() ? "it ended" : ", ended") + after;
  if (report.restarts_used != 0) {
    // The restart that is charged for this failure has not happened yet.
    const bool is_charged = !report.is_last && core::is_charged_as_restart(first.kind);
    const std::uint32_t before = report.restarts_used - (is_charged ? 1 : 0);
    if (before != 0) {
      text += (text.empty() ? "after " : ", after ") + std::to_string(before) +
              (before == 1 ? " restart" : " restarts");
    }
  }
  return text;
}

}  // namespace

bool is_failure(const round_report& report) {
  if (!report.root_cause) return false;
  return report.root_cause->kind != cause_class::drain &&
         report.root_cause->kind != cause_class::operator_stop;
}

bool is_worth_a_box(const round_report& report) {
  return is_failure(report) && (!report.is_last || !failure_lines(*report.root_cause).empty() ||
                                !others_text(report).empty());
}

std::string others_text(const round_report& report) {
  std::string text;
  for (const words& each : endings) {
    const alike found = ended_alike(report, each.how);
    if (found.ranks.empty()) continue;
    text += (text.empty() ? "" : "; ") + text_of_ranks(found.ranks) +
            (found.ranks.size() == 1 ? each.one : each.more) + code_text(found.code) +
            after_text(found.after);
  }
  return text;
}

std::string round_line(const round_report& report) {
  const cause& first = *report.root_cause;
  std::string text = "round " + std::to_string(report.round) + " failed: " + core::describe(first) +
                     (report.is_last ? "; the run ends: " : "; next: ") + report.text;
  return text + "; the whole report is in the output of the node of rank 0" +
         (first.node.empty() ? "" : " and of " + first.node);
}

std::string round_box(const round_report& report, const std::string& output,
                      const std::string& stood, const std::string& reached) {
  const cause& first = *report.root_cause;
  std::string text = "round " + std::to_string(report.round) + " failed " +
                     (report.lasted > duration::zero()
                          ? to_text(report.lasted) + " after its start; the root cause:"
                          : "before it had started; the root cause:");
  const auto add = [&text](const std::string& line) {
    if (!line.empty()) text += "\n  | " + line;
  };
  add(core::describe(first));
  add(facts_text(report));
  for (const std::string& line : failure_lines(first))
    add(line);
  add(silent_text(report));
  if (first.text.find(stood) == std::string::npos) add("before the end: " + stood);
  if (!reached.empty()) add("this node had reached " + reached);
  add(others_text(report));
  const std::string whose = first.rank ? " of rank " + std::to_string(*first.rank) : "";
  if (!output.empty()) add("the whole output" + whose + ": " + output);
  add((report.is_last ? "the run ends: " : "next: ") + report.text);
  return text;
}

}  // namespace ddprun::launcher
