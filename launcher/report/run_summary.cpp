#include "launcher/report/run_summary.hpp"

#include "launcher/report/round_box.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/messages/cause.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t why_bytes_max = 240;

std::string why_of(const round_report& report) {
  const std::string why = report.root_cause ? core::describe(*report.root_cause) : report.text;
  if (why.size() <= why_bytes_max) return why;
  return std::string(first_of(why, why_bytes_max)) + "...";
}

}  // namespace

void run_summary::add(const round_report& report, const std::string& members,
                      const std::string& reached) {
  ++rounds_;
  if (is_failure(report)) ++failed_;
  std::string line = "round " + std::to_string(report.round) + ", " +
                     (report.lasted > duration::zero() ? to_text(report.lasted) : "not started");
  if (!members.empty()) {
    line += ", " + (members == members_before_ ? "on the same nodes" : members);
  }
  members_before_ = members;
  if (!reached.empty()) line += ", " + reached;
  const std::string why = why_of(report);
  line += why == why_before_ ? ": the same" : ": " + why;
  why_before_ = why;
  if (first_.size() < first_max) {
    first_.push_back(std::move(line));
    return;
  }
  last_.push_back(std::move(line));
  if (last_.size() > last_max) last_.pop_front();
}

std::string run_summary::text() const {
  std::string text = "this node was in " + counted(rounds_, "round") + ", " +
                     std::to_string(failed_) + " of which failed:";
  const auto add = [&text](const std::string& line) { text += "\n  | " + line; };
  for (const std::string& line : first_)
    add(line);
  const std::uint64_t left_out = rounds_ - first_.size() - last_.size();
  if (left_out != 0) add("... " + counted(left_out, "more round"));
  for (const std::string& line : last_)
    add(line);
  return text;
}

}  // namespace ddprun::launcher
