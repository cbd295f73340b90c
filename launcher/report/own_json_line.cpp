#include "launcher/report/own_json_line.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace ddprun::launcher {

std::optional<own_json_line> read_own_json_line(std::string_view line) {
  if (!line.starts_with('{') || line.size() > json_line_bytes_max) return std::nullopt;
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto program = object.find("program");
  const auto message = object.find("message");
  const bool is_ours = program != object.end() && program->is_string() &&
                       program->get_ref<const std::string&>() == "ddprun" &&
                       message != object.end() && message->is_string();
  if (!is_ours) return std::nullopt;
  own_json_line read;
  for (const auto& [word, each] : {std::pair("debug", note_level::debug),
                                   {"warning", note_level::warning},
                                   {"error", note_level::error}}) {
    if (object.value("level", nlohmann::json()) == word) read.level = each;
  }
  const auto round = object.find("round");
  if (round != object.end() && round->is_number_unsigned()) read.round = round->get<round_number>();
  read.message = message->get<std::string>();
  const auto lines = object.find("lines");
  if (lines == object.end() || !lines->is_array()) return read;
  for (const auto& each : *lines) {
    if (each.is_string()) read.lines.push_back(each.get<std::string>());
  }
  return read;
}

}  // namespace ddprun::launcher
