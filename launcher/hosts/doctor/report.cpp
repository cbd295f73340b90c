#include "launcher/hosts/doctor/report.hpp"

#include "rendezvous/base/version.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ddprun::launcher::doctor {
namespace {

const char* name_of(health state) {
  switch (state) {
    case health::ok:
      return "ok";
    case health::warning:
      return "warning";
    case health::error:
      return "error";
  }
  return "";
}

std::size_t count_of(const findings& found, health state) {
  return static_cast<std::size_t>(std::count_if(
      found.begin(), found.end(), [&](const finding& each) { return each.state == state; }));
}

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string to_text(const findings& found) {
  std::size_t width = 0;
  for (const finding& each : found)
    width = std::max(width, each.check.size());
  std::string text;
  for (const finding& each : found) {
    text += fmt::format("{:<8} {:<{}}  {}\n", name_of(each.state), each.check, width, each.seen);
    if (!each.advice.empty())
      text += fmt::format("{:<8} {:<{}}  > {}\n", "", "", width, each.advice);
  }
  return text + fmt::format("{} ok, {}, {}\n", count_of(found, health::ok),
                            counted(count_of(found, health::warning), "warning"),
                            counted(count_of(found, health::error), "error"));
}

std::string to_json(const findings& found, const std::string& node) {
  nlohmann::ordered_json object = {{"node", node}, {"version", version}};
  object["findings"] = nlohmann::ordered_json::array();
  for (const finding& each : found) {
    nlohmann::ordered_json one = {
        {"check", each.check}, {"state", name_of(each.state)}, {"seen", each.seen}};
    if (!each.advice.empty()) one["advice"] = each.advice;
    object["findings"].push_back(std::move(one));
  }
  object["ok"] = count_of(found, health::ok);
  object["warnings"] = count_of(found, health::warning);
  object["errors"] = count_of(found, health::error);
  // What is no UTF-8 (a name in a file system) is shown by U+FFFD.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int exit_code_of(const findings& found) {
  return count_of(found, health::error) > 0 ? 1 : 0;
}

}  // namespace ddprun::launcher::doctor
