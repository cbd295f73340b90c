#include "worker/environment.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
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

  // As on the wire and in the journal: hexadecimal. 0: there is none.
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
  return read_environment([](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace ddprun::worker
