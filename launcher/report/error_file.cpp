#include "launcher/report/error_file.hpp"

#include "launcher/base/json_nesting.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <nlohmann/json.hpp>

namespace ddprun::launcher {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// As Python's subprocess reports it; empty: no worker's end is the cause.
std::optional<int> code_of(const cause& value) {
  if (value.was_failing) return core::exit_code_of(value);
  if (value.kind == cause_class::signal) return -value.code;
  if (value.kind == cause_class::exit) return value.code;
  return std::nullopt;
}

ordered_json as_recorded(const run_end& end) {
  ordered_json file = ordered_json::parse(end.recorded, not_too_nested, false);
  // Only the form is checked: the content of "message" is up to its writer.
  const bool is_one = file.is_object() && file.contains("message") &&
                      (file["message"].is_object() || file["message"].is_string());
  return is_one ? file : ordered_json();
}

ordered_json as_told(const run_end& end) {
  ordered_json message;
  message["message"] = end.root_cause ? core::describe(*end.root_cause) : end.text;
  message["extraInfo"]["py_callstack"] = end.root_cause ? end.root_cause->tail : "";
  message["extraInfo"]["timestamp"] = std::to_string(end.unix_seconds);
  return {{"message", std::move(message)}};
}

}  // namespace

std::string text_of_error_file(std::string_view text) {
  const json file = json::parse(text, nullptr, false);
  if (!file.is_object()) return {};
  const auto message = file.find("message");
  if (message == file.end()) return {};
  if (message->is_string()) return message->get<std::string>();
  if (!message->is_object()) return {};
  const auto extra = message->find("extraInfo");
  if (extra != message->end() && extra->is_object()) {
    if (std::string stack = text_at(*extra, "py_callstack"); !stack.empty()) return stack;
  }
  return text_at(*message, "message");
}

std::string error_file_of_run(const run_end& end) {
  ordered_json file = end.root_cause ? as_recorded(end) : ordered_json();
  if (file.is_null()) file = as_told(end);
  const std::optional<int> code = end.root_cause ? code_of(*end.root_cause) : std::nullopt;
  if (code && file["message"].is_object()) file["message"]["errorCode"] = *code;
  // ASCII only, as Python writes it.
  return file.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

}  // namespace ddprun::launcher
