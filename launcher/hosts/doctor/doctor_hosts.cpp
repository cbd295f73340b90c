#include "launcher/hosts/doctor/doctor_hosts.hpp"

#include "launcher/hosts/doctor/doctor.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun::launcher::doctor {
namespace {

using words = std::vector<std::string>;

// Runs one doctor on each host and shows the first one's output, because all say the same. It uses
// the program of the worker's parent, the agent, which need not be in PATH there.
constexpr const char* script = R"([ "$LOCAL_RANK" = 0 ] || exit 0
doctor() {
  "/proc/$PPID/exe" doctor --nnodes "$GROUP_WORLD_SIZE" \
    --rdzv-endpoint "[$MASTER_ADDR]:$MASTER_PORT" "$@"
}
[ "$GROUP_RANK" = 0 ] || { doctor "$@" > /dev/null; exit 0; }
doctor "$@")";

// `name` is "--name"; accepts --name=VALUE, and --name before its value.
bool is_option(std::string_view word, std::string_view name) {
  return word == name || (word.starts_with(name) && word[name.size()] == '=');
}

bool names_hosts(std::string_view word) {
  return (word.starts_with("-H") && !word.starts_with("--")) || is_option(word, "--hosts") ||
         is_option(word, "--hostfile");
}

// The job decides where and how many nodes meet, and --help is its own.
bool is_of_meeting(const cli::option_spec& option) {
  return option.name == "rdzv-endpoint" || option.name == "nnodes" || option.name == "rdzv-id" ||
         option.kind == cli::option_kind::question;
}

// The doctor's option that this word gives; null: it is an option of the job.
const cli::option_spec* own_option(std::string_view word) {
  for (const cli::option_spec* each : doctor_command().options) {
    if (!is_of_meeting(*each) && is_option(word, "--" + std::string(each->name))) return each;
  }
  return nullptr;
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
    const cli::option_spec* const option = own_option(word);
    const bool takes_value = option != nullptr && option->kind == cli::option_kind::value;
    words& side = option != nullptr ? own : job;
    side.push_back(word);
    if (takes_value && word.find('=') == std::string::npos && at + 1 < given.size())
      side.push_back(given[++at]);
  }
  if (!has_port) job.push_back("--master-port=" + std::to_string(hosts_meeting_port));
  for (const char* const word : {"--log-line-prefix-template=${}", "--check=off", "--no-python",
                                 "sh", "-c", script, "doctor"})
    job.emplace_back(word);
  job.insert(job.end(), own.begin(), own.end());
  return job;
}

}  // namespace ddprun::launcher::doctor
