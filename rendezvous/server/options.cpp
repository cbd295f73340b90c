#include "rendezvous/server/options.hpp"

#include "rendezvous/net/resolve.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

namespace ddprun::server {
namespace {

constexpr std::array<std::string_view, 9> known = {
    "--bind",      "--help",         "--log-level", "--port", "--port-file", "--recovery-window",
    "--state-dir", "--store-memory", "--version"};
constexpr std::size_t store_mib_max = std::size_t{1} << 20;

std::size_t edits(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t changed = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string unknown_option(const std::string& name) {
  const auto nearest = std::min_element(
      known.begin(), known.end(),
      [&](std::string_view a, std::string_view b) { return edits(name, a) < edits(name, b); });
  std::string text = "unknown option " + name;
  if (edits(name, *nearest) <= 3) text += "; did you mean " + std::string(*nearest) + "?";
  return text + " (--help lists all)";
}

template <typename Number>
std::optional<Number> parse(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<note_level> parse_level(const std::string& text) {
  if (text == "debug") return note_level::debug;
  if (text == "info") return note_level::info;
  if (text == "warning") return note_level::warning;
  if (text == "error") return note_level::error;
  return std::nullopt;
}

// What is wrong with the value; empty when it was taken.
std::string set(daemon_options& options, const std::string& name, const std::string& value) {
  if (name == "--bind") {
    if (!net::numeric_address(value)) return "is no numeric address of this host";
    options.bind_address = value;
  } else if (name == "--port") {
    const auto port = parse<std::uint16_t>(value);
    if (!port) return "is no port (0 to 65535; 0 picks a free one)";
    options.port = *port;
  } else if (name == "--port-file") {
    if (value.empty()) return "is no file name";
    options.port_file = value;
  } else if (name == "--state-dir") {
    if (value.empty()) return "is no folder; \"none\" keeps nothing";
    options.state_folder = value;
  } else if (name == "--log-level") {
    const auto level = parse_level(value);
    if (!level) return "is none of debug, info, warning and error";
    options.log_level = *level;
  } else if (name == "--store-memory") {
    const auto mib = parse<std::size_t>(value);
    if (!mib || *mib == 0 || *mib > store_mib_max) return "is no size in MiB (1 to 1048576)";
    options.store_bytes_max = *mib << 20;
  } else {
    const auto seconds = parse<double>(value);
    if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || *seconds > 86'400) {
      return "is no time in seconds (0 to 86400)";
    }
    options.recovery_window =
        std::chrono::duration_cast<duration>(std::chrono::duration<double>(*seconds));
  }
  return {};
}

}  // namespace

result<daemon_options> parse_daemon_options(const std::vector<std::string>& arguments,
                                            std::string& problem) {
  daemon_options options;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string& argument = arguments[index];
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    if (name.starts_with("--")) std::replace(name.begin() + 2, name.end(), '_', '-');
    if (name == "--help" || name == "-h" || name == "--version") {
      options.what =
          name == "--version" ? daemon_options::action::version : daemon_options::action::help;
      return options;
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problem = name.starts_with('-') ? unknown_option(name)
                                      : "unexpected argument " + argument + " (--help lists all)";
      return errc::invalid_argument;
    }
    if (equals == std::string::npos && index + 1 == arguments.size()) {
      problem = name + " needs a value";
      return errc::invalid_argument;
    }
    const std::string value =
        equals == std::string::npos ? arguments[++index] : argument.substr(equals + 1);
    const std::string wrong = set(options, name, value);
    if (!wrong.empty()) {
      problem = name + " " + (value.empty() ? "''" : value) + ": " + wrong;
      return errc::invalid_argument;
    }
  }
  return options;
}

std::string_view daemon_help() {
  return R"(usage: ddprun-rendezvous [OPTIONS]

Lets the nodes of a job find each other: start it once, then start ddprun on every node with
--rdzv-endpoint pointing here. It serves agents, TCPStore clients and HTTP (GET /healthz, GET
/api/v1/runs) on one port. Killed and started again, it goes on: its agents tell it what they run,
and a small database what they cannot know.

  --bind ADDRESS              listen on this numeric address only (all, IPv6 and IPv4)
  --port PORT                 listen on this port; 0 picks a free one and prints it (29400)
  --port-file FILE            write the port here, once it is open
  --log-level LEVEL           debug, info, warning or error (info)
  --recovery-window SECONDS   wait so long for agents of an earlier daemon on this endpoint before
                              a run goes on that was on when that daemon ended; without a state
                              folder, before any does; 0: there was none (10)
  --state-dir DIR|none        keep here what must outlive all agents: which runs are on, how often
                              they were restarted, how they ended ($STATE_DIRECTORY, else
                              ddprun/HOST-PORT in $XDG_STATE_HOME or ~/.local/state; none with
                              --port 0)
  --store-memory MIB          hold at most so much for TCPStore clients, a quarter of it for
                              requests and replies under way; who asks for more is cut off, and
                              nobody else notices (1024)
  --help, --version
)";
}

}  // namespace ddprun::server
