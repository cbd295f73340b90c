#include "launcher/report/run_events.hpp"

#include "launcher/report/round_box.hpp"

#include <utility>

namespace ddprun::launcher {

std::string_view to_string(run_event_kind kind) {
  switch (kind) {
    case run_event_kind::round_started:
      return "round_started";
    case run_event_kind::recovered:
      return "recovered";
    case run_event_kind::hang:
      return "hang";
    case run_event_kind::hang_over:
      return "hang_over";
    case run_event_kind::round_failed:
      return "round_failed";
    case run_event_kind::ended:
      return "ended";
  }
  return "ended";
}

run_event run_events::event_of(run_event_kind kind) const {
  run_event event;
  event.kind = kind;
  event.leads = leads_;
  event.round = round_;
  event.restarts_used = restarts_used_;
  event.restarts_max = restarts_max_;
  event.members = members_;
  return event;
}

void run_events::enter(round_number round, const assignment& assigned, const std::string& members,
                       std::uint32_t restarts_used) {
  round_ = round;
  leads_ = assigned.group_rank == 0;
  members_ = members;
  restarts_used_ = restarts_used;
  hangs_ = false;
}

std::vector<run_event> run_events::started(round_number round) {
  if (round != round_) return {};
  std::vector<run_event> events = {event_of(run_event_kind::round_started)};
  if (std::exchange(has_failed_, false)) events.push_back(event_of(run_event_kind::recovered));
  return events;
}

std::vector<run_event> run_events::hangs(const std::optional<hung_rank>& who) {
  if (who.has_value() == hangs_) return {};
  hangs_ = who.has_value();
  run_event event = event_of(who ? run_event_kind::hang : run_event_kind::hang_over);
  if (who) {
    event.rank = who->rank;
    event.text = who->text;
  }
  return {std::move(event)};
}

std::vector<run_event> run_events::over(const round_report& report, const std::string& output) {
  if (!is_failure(report)) return {};
  has_failed_ = true;
  run_event event = event_of(run_event_kind::round_failed);
  event.round = report.round;
  event.restarts_used = report.restarts_used;
  event.report = report;
  event.output = output;
  return {std::move(event)};
}

std::vector<run_event> run_events::left(int exit_code, const std::string& text) {
  // It has never taken part, so there is nothing to tell.
  if (round_ == 0 && exit_code == refused_exit_code) return {};
  run_event event = event_of(run_event_kind::ended);
  event.exit_code = exit_code;
  event.text = text;
  return {std::move(event)};
}

}  // namespace ddprun::launcher
