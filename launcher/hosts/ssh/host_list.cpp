#include "launcher/hosts/ssh/host_list.hpp"

#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::string_view between_words = " \t\r\f\v";

std::vector<std::string_view> split_at_any(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words = split_at_any(line, between_words);
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  return words;
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 253 || text.front() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '%';
  });
}

cli::usage_error wrong_host(std::string_view given, std::string_view text) {
  return cli::wrong(given, "\"" + std::string(text) +
                               "\" is not a host; write NAME, NAME:WORKERS or [IPV6]:WORKERS");
}

cli::checked keep_count(std::uint32_t& count, std::string_view given, std::string_view text) {
  return cli::keep(count, cli::read_count(given, text, "workers", 1, workers_per_node_max));
}

// Forms: "a", "a:4", "user@a:4", "[fe80::1]:4".
cli::parsed<host> read_host(std::string_view given, std::string_view text) {
  host one;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    one.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (!is_name(one.user)) return wrong_host(given, text);
  }
  std::string_view number;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return wrong_host(given, text);
    one.name = rest.substr(1, end - 1);
    number = rest.substr(end + 1);
  } else {
    const std::size_t colon = rest.find(':');
    if (colon != rest.rfind(':')) {
      return cli::wrong(given, "\"" + std::string(text) +
                                   "\": an IPv6 address stands in brackets, "
                                   "as in [fe80::1]:4");
    }
    one.name = rest.substr(0, colon);
    number = colon == std::string_view::npos ? std::string_view() : rest.substr(colon);
  }
  if (!is_name(one.name)) return wrong_host(given, text);
  one.slots = 1;
  if (number.empty()) return one;
  if (number.front() != ':') return wrong_host(given, text);
  one.has_number = true;
  const std::string of = std::string(given) + ": " + one.name;
  if (const cli::checked bad = keep_count(one.slots, of, number.substr(1))) return *bad;
  return one;
}

void add(std::vector<host>& hosts, host one) {
  const auto known = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const host& each) { return each.name == one.name; });
  if (known == hosts.end()) return hosts.push_back(std::move(one));
  known->slots += one.slots;
  known->has_number = true;  // one worker per mention, so the count is given
  if (known->user.empty()) known->user = one.user;
}

// Reads a setting behind a host's name: "slots=4", "max_slots=8".
cli::checked read_host_setting(std::string_view given, std::string_view word, host& one) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const bool is_most = key == "max_slots" || key == "max-slots";
  if (equals == std::string_view::npos || (key != "slots" && !is_most)) {
    return cli::wrong(given, "\"" + std::string(word) +
                                 "\" is not understood; write NAME slots=WORKERS, or NAME:WORKERS");
  }
  std::uint32_t number = 0;
  if (const auto bad =
          keep_count(number, std::string(given) + ": " + std::string(key), word.substr(equals + 1)))
    return bad;
  // A maximum is checked but not used: ddprun never starts more workers than `slots`.
  if (is_most) return {};
  one.slots = number;
  one.has_number = true;
  return {};
}

}  // namespace

cli::parsed<std::vector<host>> read_host_list(std::string_view given, std::string_view text) {
  std::vector<host> hosts;
  for (const std::string_view part : split_at_any(text, ",")) {
    auto one = read_host(given, cli::without_blanks(part));
    if (!one) return one.error();
    add(hosts, std::move(*one));
  }
  return hosts;
}

cli::parsed<std::vector<host>> read_hostfile(const std::string& path, std::string_view text) {
  std::vector<host> hosts;
  std::size_t number = 0;
  for (const std::string_view whole : split_at_any(text, "\n")) {
    ++number;
    const std::vector<std::string_view> words = words_of(whole.substr(0, whole.find('#')));
    if (words.empty()) continue;
    const std::string given = path + ":" + std::to_string(number);
    auto one = read_host(given, words.front());
    if (!one) return one.error();
    for (std::size_t index = 1; index < words.size(); ++index) {
      if (const cli::checked bad = read_host_setting(given, words[index], *one)) return *bad;
    }
    add(hosts, std::move(*one));
  }
  if (hosts.empty()) return cli::wrong(path, "no host is in it");
  return hosts;
}

namespace {

// Reads "0,2": the numbers of the host's GPUs.
cli::parsed<std::vector<std::uint32_t>> read_slots(std::string_view given, const host& of,
                                                   std::string_view text) {
  std::vector<std::uint32_t> numbers;
  for (const std::string_view part : split_at_any(text, ",")) {
    const auto read = cli::read_count(given, part, "GPU of " + of.name, 0, of.slots - 1);
    if (!read) return read.error();
    numbers.push_back(*read);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<std::uint32_t> without(const host& of, const std::vector<std::uint32_t>& taken) {
  std::vector<std::uint32_t> left;
  for (std::uint32_t number = 0; number < of.slots; ++number) {
    if (!std::binary_search(taken.begin(), taken.end(), number)) left.push_back(number);
  }
  return left;
}

}  // namespace

cli::checked filter_hosts(std::vector<host>& hosts, std::string_view given, std::string_view text,
                          bool keeps) {
  std::vector<host> kept;
  std::vector<host> rest = hosts;
  for (const std::string_view part : split_at_any(text, "@")) {
    const std::size_t colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    const auto found =
        std::find_if(rest.begin(), rest.end(), [&](const host& each) { return each.name == name; });
    if (found == rest.end()) {
      return cli::wrong(given,
                        "\"" + std::string(name) + "\" is not in the host list, or is repeated");
    }
    host one = *found;
    const auto place = rest.erase(found);
    if (colon != std::string_view::npos) {
      const auto chosen = read_slots(given, one, part.substr(colon + 1));
      if (!chosen) return chosen.error();
      one.gpus = keeps ? *chosen : without(one, *chosen);
      one.slots = static_cast<std::uint32_t>(one.gpus.size());
      one.has_number = true;
      // --exclude with GPUs: the host stays, with those that are left.
      if (!keeps && one.slots > 0) rest.insert(place, one);
    }
    kept.push_back(std::move(one));
  }
  hosts = std::move(keeps ? kept : rest);
  if (hosts.empty()) return cli::wrong(given, "no host is left");
  return {};
}

}  // namespace ddprun::launcher::ssh
