#include "worker/environment.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>

namespace ddprun::worker {
namespace {

constexpr std::uint32_t world_size_limit = 1'000'000;
constexpr std::uint64_t any_number = std::numeric_limits<std::uint64_t>::max();

class reader {
 public:
  explicit reader(const variable_lookup& lookup) : lookup_(lookup) {}

  std::string text(const char* name) const {
    auto value = lookup_(name);
    if (!value || value->empty()) {
      throw environment_error(std::string(name) + (value ? " is empty" : " is not set") +
                              ": start this program with ddprun or torchrun, which set it");
    }
    return *value;
  }

  std::string text_or(const char* name, const char* otherwise) const {
    return lookup_(name).value_or(otherwise);
  }

  std::uint64_t number(const char* name, std::uint64_t low, std::uint64_t high) const {
    return parse(name, text(name), low, high);
  }

  std::uint64_t number_or(const char* name, std::uint64_t otherwise, std::uint64_t low,
                          std::uint64_t high) const {
    auto value = lookup_(name);
    return value && !value->empty() ? parse(name, *value, low, high) : otherwise;
  }

  // Instances are hexadecimal, as on the wire and in the journal. 0 means that there is none.
  std::uint64_t instance(const char* name) const {
    const auto value = lookup_(name);
    return value && !value->empty() ? parse(name, *value, 0, any_number, 16) : 0;
  }

 private:
  static std::uint64_t parse(const char* name, const std::string& value, std::uint64_t low,
                             std::uint64_t high, int base = 10) {
    std::uint64_t number = 0;
    const char* const end = value.data() + value.size();
    const auto [rest, failure] = std::from_chars(value.data(), end, number, base);
    const std::string what = std::string(name) + "='" + value + "'";
    if (failure == std::errc::invalid_argument || rest != end) {
      throw environment_error(what +
                              " is not a number: start this program with ddprun or torchrun, "
                              "and do not set it by hand");
    }
    if (failure != std::errc{} || number < low || number > high) {
      throw environment_error(what + " is out of range: it must be " + std::to_string(low) +
                              " to " + std::to_string(high) +
                              "; start this program with ddprun or torchrun, and do not set it "
                              "by hand");
    }
    return number;
  }

  const variable_lookup& lookup_;
};

std::optional<std::string> of_this_process(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

environment read_environment(const variable_lookup& lookup) {
  const reader from(lookup);
  const auto small = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  environment result;
  result.world_size = small(from.number("WORLD_SIZE", 1, world_size_limit));
  result.rank = small(from.number("RANK", 0, result.world_size - 1));
  result.local_world_size = small(from.number("LOCAL_WORLD_SIZE", 1, result.world_size));
  result.local_rank = small(from.number("LOCAL_RANK", 0, result.local_world_size - 1));
  result.group_world_size = small(from.number_or("GROUP_WORLD_SIZE", 1, 1, result.world_size));
  result.group_rank = small(from.number_or("GROUP_RANK", 0, 0, result.world_size - 1));
  result.master_address = from.text("MASTER_ADDR");
  result.master_port = static_cast<std::uint16_t>(from.number("MASTER_PORT", 1, 65535));
  const auto restarts_limit = std::numeric_limits<std::uint32_t>::max();
  result.restart_count = small(from.number_or("TORCHELASTIC_RESTART_COUNT", 0, 0, restarts_limit));
  result.restarts_max = small(from.number_or("TORCHELASTIC_MAX_RESTARTS", 0, 0, restarts_limit));
  result.agent_store = from.text_or("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  result.run_id = from.text_or("TORCHELASTIC_RUN_ID", "");
  result.node_id = from.text_or("DDPRUN_NODE_ID", "");
  result.round =
      from.number_or("DDPRUN_ROUND", std::uint64_t{result.restart_count} + 1, 1, any_number);
  result.instance = from.instance("DDPRUN_INSTANCE");
  return result;
}

environment read_environment() {
  return read_environment(of_this_process);
}

environment read_environment(const place_by_hand& place, const variable_lookup& lookup) {
  constexpr std::string_view scheme = "tcp://";
  if (place.init_method == "env://") return read_environment(lookup);
  const std::string what = "init method '" + place.init_method + "'";
  std::string address = place.init_method;
  const std::size_t colon = address.rfind(':');
  if (!address.starts_with(scheme) || colon < scheme.size()) {
    throw environment_error(what + " is neither env:// nor tcp://IP:PORT");
  }
  const std::string port = address.substr(colon + 1);
  address = address.substr(scheme.size(), colon - scheme.size());
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  const bool is_port = !port.empty() && port.size() <= 5 &&
                       port.find_first_not_of("0123456789") == std::string::npos &&
                       std::stoul(port) >= 1 && std::stoul(port) <= 65535;
  if (address.empty() || !is_port) {
    throw environment_error(what + " has no address, or no port of 1 to 65535 behind it");
  }
  if (!place.rank || !place.world_size) {
    throw environment_error(what + " needs a rank and a world size with it");
  }
  if (*place.world_size == 0 || *place.rank >= *place.world_size) {
    throw environment_error("rank " + std::to_string(*place.rank) + " of " +
                            std::to_string(*place.world_size) +
                            " does not exist: ranks are 0 to the world size minus one");
  }
  const std::map<std::string_view, std::string> given = {
      {"RANK", std::to_string(*place.rank)},
      {"WORLD_SIZE", std::to_string(*place.world_size)},
      {"MASTER_ADDR", address},
      {"MASTER_PORT", port}};
  const std::map<std::string_view, std::string> otherwise = {{"LOCAL_RANK", "0"},
                                                             {"LOCAL_WORLD_SIZE", "1"}};
  return read_environment([&](const char* name) -> std::optional<std::string> {
    if (const auto found = given.find(name); found != given.end()) return found->second;
    const auto value = lookup(name);
    const auto found = otherwise.find(name);
    return value || found == otherwise.end() ? value : std::optional(found->second);
  });
}

environment read_environment(const place_by_hand& place) {
  return read_environment(place, of_this_process);
}

}  // namespace ddprun::worker
