#include "rendezvous/protocol/report_fields.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace ddprun::protocol {
namespace {

nlohmann::ordered_json json_of(const ended_ranks& part) {
  nlohmann::ordered_json one = {
      {"how", to_string(part.how)}, {"first_rank", part.first}, {"last_rank", part.last}};
  if (part.code > 0) one["exit_code"] = part.code;
  if (part.code < 0) one["signal"] = -part.code;
  if (!part.after) return one;
  one["first_after_s"] = static_cast<double>(part.after->first.count()) / 1e3;
  one["last_after_s"] = static_cast<double>(part.after->last.count()) / 1e3;
  return one;
}

}  // namespace

void add_outcome(nlohmann::ordered_json& object, const round_report& report) {
  nlohmann::ordered_json ends = nlohmann::ordered_json::array();
  for (const ended_ranks& part : report.ends)
    ends.push_back(json_of(part));
  object["ends"] = std::move(ends);
  object["goes_on"] = !report.is_last;
  if (report.is_last) object["exit_code"] = report.exit_code;
  object["restarts_used"] = report.restarts_used;
  object["restarts_forgiven"] = report.restarts_forgiven;
  object["restarts_max"] = report.restarts_max;
  object["text"] = report.text;
}

}  // namespace ddprun::protocol
