#include "launcher/report/report_json.hpp"

#include "launcher/report/failure_text.hpp"
#include "launcher/report/round_box.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/protocol/report_fields.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <ctime>
#include <sys/time.h>

namespace ddprun::launcher {
namespace {

using json = nlohmann::ordered_json;

// UTC with milliseconds, in the form of RFC 3339.
std::string now_text() {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 40> second{};
  std::strftime(second.data(), second.size(), "%FT%T", &parts);
  std::string fraction = std::to_string(1000 + now.tv_usec / 1000).substr(1);
  return std::string(second.data()) + "." + fraction + "Z";
}

json to_json(const cause& value, const std::string& output) {
  const failure_text words = read_failure(value);
  json object;
  object["sentence"] = core::describe(value);
  object["kind"] = to_string(value.kind);
  object["code"] = value.code;
  object["node"] = value.node;
  object["group_rank"] = value.group_rank;
  if (value.rank) object["rank"] = *value.rank;
  if (value.local_rank) object["local_rank"] = *value.local_rank;
  if (value.process != 0) object["process"] = value.process;
  object["is_secondary"] = value.is_secondary;
  object["by_our_stop"] = value.by_our_stop;
  if (!words.error.empty()) object["error"] = words.error;
  json frames = json::array();
  for (const python_frame& frame : words.frames)
    frames.push_back({{"place", frame.place}, {"code", frame.code}});
  if (!frames.empty()) object["frames"] = std::move(frames);
  if (words.known != nullptr) {
    object["signature"] = words.known->name;
    object["meaning"] = words.known->meaning;
    object["advice"] = words.known->advice;
  }
  if (!value.tail.empty()) object["stderr_tail"] = value.tail;
  if (!output.empty()) object["output"] = output;
  return object;
}

const char* outcome_of(const round_report& report) {
  if (is_failure(report)) return "failed";
  if (report.is_last && report.exit_code == 0) return "succeeded";
  return report.is_last ? "stopped" : "changed";
}

}  // namespace

std::string report_json(const round_report& report, const report_origin& from) {
  json object;
  object["time"] = now_text();
  object["run_id"] = from.run_id;
  object["reported_by"] = from.node;
  object["round"] = report.round;
  object["outcome"] = outcome_of(report);
  object["lasted_s"] = static_cast<double>(to_micros(report.lasted)) / 1e6;
  object["nodes"] = report.group_world_size;
  object["world_size"] = report.world_size;
  if (report.root_cause) object["root_cause"] = to_json(*report.root_cause, from.output);
  if (!from.stood.empty()) object["stood"] = from.stood;
  if (!from.reached.empty()) object["reached"] = from.reached;
  if (!from.evidence.empty()) object["evidence"] = from.evidence;
  protocol::add_outcome(object, report);
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
