#include "launcher/process/timer_request.hpp"

#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace ddprun::launcher::workers {
namespace {

using nlohmann::json;

constexpr int signal_max = 64;
constexpr std::size_t shown_bytes_max = 60;

// A malformed line, shortened for a message.
std::string shown(std::string_view line) {
  const std::string text = in_one_line(to_valid_utf8(line.substr(0, shown_bytes_max)));
  return line.size() > shown_bytes_max ? text + "..." : text;
}

}  // namespace

std::optional<timer_request> read_timer_request(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto end = object.end();
  const auto process = object.find("pid");
  const auto scope = object.find("scope_id");
  const auto expires_at = object.find("expiration_time");
  const auto signal = object.find("signal");
  if (process == end || scope == end || expires_at == end || signal == end) return std::nullopt;
  const bool fits = process->is_number_integer() && scope->is_string() && expires_at->is_number() &&
                    signal->is_number_integer();
  if (!fits) return std::nullopt;
  timer_request request;
  request.process = process->get<std::int64_t>();
  request.scope = scope->get<std::string>();
  request.expires_at = expires_at->get<double>();
  const auto number = signal->get<std::int64_t>();
  const bool is_process =
      request.process > 0 && request.process <= std::numeric_limits<std::int32_t>::max();
  if (!is_process || number > signal_max) return std::nullopt;
  request.signal = number > 0 ? static_cast<int>(number) : 0;
  return request;
}

timer_stream::heard timer_stream::read(std::string_view bytes) {
  heard to;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::string_view part = bytes.substr(0, newline);
    is_over_ = is_over_ || begun_.size() + part.size() > line_bytes_max;
    if (is_over_) {
      begun_.clear();
    } else {
      begun_ += part;
    }
    if (newline == std::string_view::npos) break;
    end_line(to);
    bytes.remove_prefix(newline + 1);
  }
  return to;
}

void timer_stream::end_line(heard& to) {
  std::string problem;
  if (is_over_) {
    problem = "a line of more than " + std::to_string(line_bytes_max) + " bytes";
  } else if (auto request = read_timer_request(begun_)) {
    to.requests.push_back(std::move(*request));
  } else {
    problem = "a line that sets no timer: " + shown(begun_);
  }
  if (to.problem.empty()) to.problem = std::move(problem);
  begun_.clear();
  is_over_ = false;
}

}  // namespace ddprun::launcher::workers
