#include "rendezvous/log/own_line.hpp"

#include "rendezvous/base/color.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>

namespace ddprun::log {
namespace {

using json = nlohmann::ordered_json;

// Formats the time zone: "+01:00".
std::string zone_text(const tm& local) {
  const long minutes = local.tm_gmtoff / 60;
  const long size = minutes < 0 ? -minutes : minutes;
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%c%02d:%02d", minutes < 0 ? '-' : '+',
                static_cast<int>(size / 60 % 100), static_cast<int>(size % 60));
  return text.data();
}

}  // namespace

timespec wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

std::string time_text(time_style style, const timespec& when) {
  if (style == time_style::none) return {};
  tm local{};
  ::localtime_r(&when.tv_sec, &local);
  std::array<char, 64> text{};
  const char* const format = style == time_style::iso ? "%FT%T" : "%T";
  const std::size_t size = std::strftime(text.data(), text.size(), format, &local);
  std::string made(text.data(), size);
  made += "." + std::to_string(1000 + when.tv_nsec / 1'000'000).substr(1);
  return style == time_style::iso ? made + zone_text(local) : made;
}

std::string_view level_text(note_level level) {
  switch (level) {
    case note_level::debug:
      return "debug";
    case note_level::info:
      return "info";
    case note_level::warning:
      return "warning";
    case note_level::error:
      return "error";
  }
  return "info";
}

std::string level_mark(note_level level, bool is_colored) {
  const std::string text = std::string(level_text(level)) + ":";
  if (!is_colored || level < note_level::warning) return text;
  return in_color(level == note_level::error ? color::red : color::yellow, text);
}

std::string json_line(const line_origin& from, time_style style, const timespec& when,
                      note_level level, round_number round, std::string_view text) {
  json object;
  if (style != time_style::none) object["time"] = time_text(time_style::iso, when);
  object["level"] = level_text(level);
  for (const auto& [name, value] :
       {std::pair("program", &from.program), {"node", &from.node}, {"run_id", &from.run_id}}) {
    if (!value->empty()) object[name] = *value;
  }
  if (round != 0) object["round"] = round;
  const std::size_t first_end = text.find('\n');
  object["message"] = text.substr(0, first_end);
  if (first_end != std::string_view::npos) {
    json lines = json::array();
    for (std::size_t at = first_end; at != std::string_view::npos;) {
      const std::size_t end = text.find('\n', at + 1);
      std::string_view line =
          text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
      if (line.starts_with(detail_mark)) line.remove_prefix(detail_mark.size());
      lines.push_back(line);
      at = end;
    }
    object["lines"] = std::move(lines);
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::log
