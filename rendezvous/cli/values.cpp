#include "rendezvous/cli/values.hpp"

#include "rendezvous/base/printable_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun::cli {
namespace {

std::string lower(std::string_view text) {
  std::string copy(text);
  std::transform(copy.begin(), copy.end(), copy.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return copy;
}

// Reads all of `text` as a number.
std::optional<std::uint64_t> whole_number(std::string_view text) {
  // As with Python's int(), with which torchrun reads numbers, blanks around it are ignored.
  text = without_blanks(text);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stopped != end) return {};
  return value;
}

bool is_one_word(std::string_view text) {
  return !has_control_characters(text) && text.find(' ') == std::string_view::npos;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

parsed<std::uint32_t> read_count(std::string_view given, std::string_view text,
                                 std::string_view what, std::uint32_t min, std::uint32_t max) {
  const std::optional<std::uint64_t> number = whole_number(text);
  if (!number || *number < min || *number > max) {
    return wrong(given, "the number of " + std::string(what) + " is a whole number from " +
                            std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<std::uint32_t>(*number);
}

parsed<node_range> read_node_range(std::string_view given, std::string_view text,
                                   std::uint32_t max) {
  const std::size_t colon = text.find(':');
  const auto low = whole_number(text.substr(0, colon));
  const auto high = colon == std::string_view::npos ? low : whole_number(text.substr(colon + 1));
  if (!low || !high) {
    return wrong(given, "write the number of nodes as N, or as MIN:MAX for an elastic run");
  }
  if (*low == 0) return wrong(given, "a run needs at least 1 node");
  if (*high > max) {
    return wrong(given, "more than " + std::to_string(max) + " nodes");
  }
  if (*low > *high) {
    return wrong(given, "the minimum " + std::to_string(*low) + " is above the maximum " +
                            std::to_string(*high) + "; write --nnodes=" + std::to_string(*high) +
                            ":" + std::to_string(*low));
  }
  return node_range{static_cast<std::uint32_t>(*low), static_cast<std::uint32_t>(*high)};
}

parsed<endpoint_address> read_endpoint(std::string_view given, std::string_view text) {
  text = without_blanks(text);
  if (text.find(',') != std::string_view::npos) {
    return wrong(given,
                 "name one endpoint: daemons do not know of each other yet, and two would divide "
                 "the nodes among them");
  }
  endpoint_address endpoint;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return wrong(given, "the bracket is not closed");
    endpoint.host = text.substr(1, bracket - 1);
    const std::string_view rest = text.substr(bracket + 1);
    if (rest.starts_with(':')) {
      port = rest.substr(1);
    } else if (!rest.empty()) {
      return wrong(given, "write an IPv6 endpoint as [ADDRESS]:PORT");
    }
  } else if (std::count(text.begin(), text.end(), ':') > 1) {
    endpoint.host = text;  // a bare IPv6 address
  } else {
    const std::size_t colon = text.find(':');
    endpoint.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon + 1);
  }
  if (text.find("://") != std::string_view::npos) {
    return wrong(given, "write the endpoint as HOST:PORT, without a scheme");
  }
  if (endpoint.host.empty()) return wrong(given, "the host is missing; write HOST:PORT");
  if (endpoint.host.size() > name_bytes_max || !is_one_word(endpoint.host)) {
    return wrong(given, "that is not a host name or an address");
  }
  endpoint.port = default_endpoint_port;
  if (port) {
    const auto number = whole_number(*port);
    if (!number || *number > 65535) {
      return wrong(given, "the port is a number from 1 to 65535 (" +
                              std::to_string(default_endpoint_port) + " when it is left out)");
    }
    endpoint.port = static_cast<std::uint16_t>(*number);
  }
  return endpoint;
}

parsed<std::string> read_name(std::string_view given, std::string_view text,
                              std::string_view what) {
  if (text.empty()) return wrong(given, "the " + std::string(what) + " is empty");
  if (text.size() > name_bytes_max) {
    return wrong(given, "the " + std::string(what) + " is longer than " +
                            std::to_string(name_bytes_max) + " bytes");
  }
  if (!is_one_word(text)) {
    return wrong(given,
                 "the " + std::string(what) + " must not contain blanks or control characters");
  }
  return {boost::system::in_place_value, text};
}

parsed<duration> read_seconds(std::string_view given, std::string_view text, bool zero_allowed) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  // This also reads "inf" and "nan", which the comparisons below refuse.
  const auto [stopped, error] = std::from_chars(text.data(), end, seconds);
  constexpr auto most = std::chrono::duration_cast<std::chrono::seconds>(timer_max).count();
  const bool read = !text.empty() && error == std::errc() && stopped == end;
  const bool is_zero = read && seconds == 0 && zero_allowed;
  if (!read || !(is_zero || (seconds >= 0.001 && seconds <= static_cast<double>(most)))) {
    return wrong(given, std::string("write seconds from ") + (zero_allowed ? "0" : "0.001") +
                            " to " + std::to_string(most) + "; fractions are fine");
  }
  // Round to milliseconds, so that two nodes with the same text get the same value.
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000 + 0.5));
}

parsed<note_level> read_log_level(std::string_view given, std::string_view text) {
  static constexpr typed_word<note_level> words[] = {
      {"debug", note_level::debug},  {"info", note_level::info},   {"warning", note_level::warning},
      {"warn", note_level::warning}, {"error", note_level::error}, {"critical", note_level::error}};
  return read_word(given, lower(text), words, "debug, info, warning or error");
}

parsed<color_mode> read_color_mode(std::string_view given, std::string_view text) {
  static constexpr typed_word<color_mode> words[] = {{"auto", color_mode::automatic},
                                                     {"always", color_mode::always},
                                                     {"never", color_mode::never}};
  return read_word(given, text, words, "auto, always or never");
}

parsed<std::uint16_t> read_port(std::string_view given, std::string_view text,
                                std::string_view meaning) {
  const auto number = whole_number(text);
  if (number && *number <= 65535) return static_cast<std::uint16_t>(*number);
  return wrong(given, "the port is a number from 1 to 65535, or " + std::string(meaning));
}

std::optional<bool> read_truth(std::string_view text) {
  static constexpr std::array<std::string_view, 5> yes = {"1", "true", "t", "yes", "y"};
  static constexpr std::array<std::string_view, 5> no = {"0", "false", "f", "no", "n"};
  const std::string word = lower(text);
  if (std::find(yes.begin(), yes.end(), word) != yes.end()) return true;
  if (std::find(no.begin(), no.end(), word) != no.end()) return false;
  return {};
}

std::string to_text(const endpoint_address& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" +
         std::to_string(endpoint.port);
}

}  // namespace ddprun::cli
