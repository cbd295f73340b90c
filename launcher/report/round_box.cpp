#include "launcher/report/round_box.hpp"

#include "launcher/report/failure_words.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ddprun::launcher {
namespace {

// In one list: a stretch of a world of 80,000 is no longer than this, and the rest is a number.
constexpr std::uint32_t ranks_max = 100'000;

std::vector<std::uint32_t> ranks_of(const round_report& report, ending how) {
  std::vector<std::uint32_t> ranks;
  for (const ended_ranks& part : report.ends) {
    if (part.how != how) continue;
    for (std::uint64_t rank = part.first; rank <= part.last && ranks.size() < ranks_max; ++rank) {
      const bool is_first = report.first_cause && report.first_cause->rank == rank;
      if (!is_first) ranks.push_back(static_cast<std::uint32_t>(rank));
    }
  }
  return ranks;
}

struct words {
  ending how;
  const char* one;
  const char* more;
};
constexpr words endings[] = {
    {ending::failed, " failed too", " failed too"},
    {ending::effect, " ended because of it", " ended because of it"},
    {ending::lost, " was lost with its node", " were lost with their nodes"},
    {ending::killed, " had to be killed", " had to be killed"},
    {ending::stopped, " was stopped", " were stopped"},
    {ending::succeeded, " had ended well", " had ended well"},
};

// Where all others gave up waiting, and nobody says why: whoever had nothing to say.
std::string silent_text(const round_report& report) {
  const cause& first = *report.first_cause;
  if (!first.is_effect) return {};
  const failure_words said = read_failure(first);
  if (said.known == nullptr || said.known->from != follows::silence) return {};
  std::vector<std::uint32_t> ranks = ranks_of(report, ending::stopped);
  for (const std::uint32_t rank : ranks_of(report, ending::killed))
    ranks.push_back(rank);
  if (ranks.empty()) return {};
  std::sort(ranks.begin(), ranks.end());
  return text_of_ranks(ranks) + (ranks.size() == 1 ? " was" : " were") +
         " still at work when the others gave up waiting: look there first";
}

std::string facts_text(const round_report& report) {
  const cause& first = *report.first_cause;
  std::string text = first.process != 0 ? "process " + std::to_string(first.process) : "";
  if (report.restarts_used != 0) {
    // What is charged for this failure is no try yet.
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
  if (!report.first_cause) return false;
  return report.first_cause->kind != cause_class::drain &&
         report.first_cause->kind != cause_class::operator_stop;
}

bool is_worth_a_box(const round_report& report) {
  return is_failure(report) && (!report.is_last || !failure_lines(*report.first_cause).empty() ||
                                !others_text(report).empty());
}

std::string others_text(const round_report& report) {
  std::string text;
  for (const words& each : endings) {
    const std::vector<std::uint32_t> ranks = ranks_of(report, each.how);
    if (ranks.empty()) continue;
    text += (text.empty() ? "" : "; ") + text_of_ranks(ranks) +
            (ranks.size() == 1 ? each.one : each.more);
  }
  return text;
}

std::string round_line(const round_report& report) {
  const cause& first = *report.first_cause;
  std::string text = "round " + std::to_string(report.round) + " failed: " + core::describe(first) +
                     (report.is_last ? "; the end: " : "; next: ") + report.text;
  return text + "; the whole report is in the output of the node of rank 0" +
         (first.node.empty() ? "" : " and of " + first.node);
}

std::string round_box(const round_report& report, const std::string& output) {
  const cause& first = *report.first_cause;
  std::string text = "round " + std::to_string(report.round) + " failed " +
                     (report.lasted > duration::zero()
                          ? to_text(report.lasted) + " after its start; the first cause:"
                          : "before it had started; the first cause:");
  const auto add = [&text](const std::string& line) {
    if (!line.empty()) text += "\n  | " + line;
  };
  add(core::describe(first));
  add(facts_text(report));
  for (const std::string& line : failure_lines(first))
    add(line);
  add(silent_text(report));
  add(others_text(report));
  if (!output.empty()) add("its whole output: " + output);
  add((report.is_last ? "the end: " : "next: ") + report.text);
  return text;
}

}  // namespace ddprun::launcher
