#include "launcher/report/report_json.hpp"
#include "launcher/report/run_events.hpp"

#include <nlohmann/json.hpp>

namespace ddprun::launcher {

std::string event_json(const run_event& event, const std::string& run_id, const std::string& node) {
  using json = nlohmann::ordered_json;
  json object;
  object["event"] = to_string(event.kind);
  object["run_id"] = run_id;
  object["node"] = node;
  object["leads"] = event.leads;
  if (event.round != 0) object["round"] = event.round;
  object["restarts_used"] = event.restarts_used;
  object["restarts_max"] = event.restarts_max;
  if (!event.members.empty()) object["members"] = event.members;
  if (event.kind == run_event_kind::hang) {
    if (event.rank) object["rank"] = *event.rank;
    object["text"] = event.text;
  }
  if (event.kind == run_event_kind::ended) {
    object["exit_code"] = event.exit_code;
    object["text"] = event.text;
  }
  // The report has all fields of --report, made in one place.
  if (event.report) {
    object["report"] = json::parse(report_json(*event.report, {run_id, node, event.output}));
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
