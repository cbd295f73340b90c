#include "launcher/hosts/doctor/doctor_hosts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun::launcher::doctor {
namespace {

using words = std::vector<std::string>;

// One for each host, and the first one's text: all say the same. The worker's parent is the agent,
// whose program need not be in PATH there.
constexpr const char* script = R"([ "$LOCAL_RANK" = 0 ] || exit 0
doctor() {
  "/proc/$PPID/exe" doctor --nnodes "$GROUP_WORLD_SIZE" \
    --rdzv-endpoint "[$MASTER_ADDR]:$MASTER_PORT" "$@"
}
[ "$GROUP_RANK" = 0 ] || { doctor "$@" > /dev/null; exit 0; }
doctor "$@")";

// `name` is "--name": written as --name=VALUE, or as --name before its value.
bool is_option(std::string_view word, std::string_view name) {
  return word == name || (word.starts_with(name) && word[name.size()] == '=');
}

template <std::size_t count>
bool is_one_of(std::string_view word, const std::array<std::string_view, count>& names) {
  return std::any_of(names.begin(), names.end(),
                     [word](std::string_view name) { return is_option(word, name); });
}

constexpr std::array<std::string_view, 3> with_value = {"--shared", "--network", "--wait"};
constexpr std::array<std::string_view, 2> flags = {"--bandwidth", "--json"};
constexpr std::array<std::string_view, 2> of_hosts = {"--hosts", "--hostfile"};

bool names_hosts(std::string_view word) {
  return (word.starts_with("-H") && !word.starts_with("--")) || is_one_of(word, of_hosts);
}

}  // namespace

std::optional<words> words_for_hosts(const words& given) {
  if (given.empty() || given.front() != "doctor" ||
      std::none_of(given.begin() + 1, given.end(), names_hosts) ||
      std::find(given.begin(), given.end(), "--help") != given.end())
    return {};
  words job;
  words own;
  bool has_port = false;
  for (std::size_t at = 1; at < given.size(); ++at) {
    const std::string& word = given[at];
    has_port = has_port || is_option(word, "--master-port");
    const bool takes_value = is_one_of(word, with_value);
    words& side = takes_value || is_one_of(word, flags) ? own : job;
    side.push_back(word);
    if (takes_value && word.find('=') == std::string::npos && at + 1 < given.size())
      side.push_back(given[++at]);
  }
  if (!has_port) job.push_back("--master-port=" + std::to_string(hosts_meeting_port));
  for (const char* const word :
       {"--log-line-prefix-template=", "--check=off", "--no-python", "sh", "-c", script, "doctor"})
    job.emplace_back(word);
  job.insert(job.end(), own.begin(), own.end());
  return job;
}

}  // namespace ddprun::launcher::doctor
