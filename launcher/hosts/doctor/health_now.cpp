#include "launcher/hosts/doctor/health_now.hpp"

#include "launcher/base/text.hpp"
#include "launcher/hosts/doctor/start_check.hpp"
#include "launcher/process/program_answer.hpp"

#include <chrono>
#include <sstream>
#include <string_view>
#include <system_error>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::chrono::seconds nvidia_smi_limit{5};
constexpr std::size_t answer_bytes_max = 4096;

void add_to(std::string& all, const std::string& one) {
  if (!one.empty()) all += (all.empty() ? "" : "; ") + one;
}

}  // namespace

std::string judge_recovery(const std::string& csv) {
  std::string found;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comma = line.find(',');
    if (comma == std::string::npos) continue;
    const std::string_view gpu = trimmed(std::string_view(line).substr(0, comma));
    const std::string_view action = trimmed(std::string_view(line).substr(comma + 1));
    const bool is_known = !action.empty() && action.front() != '[';  // "[N/A]"
    if (!whole_number<std::uint32_t>(gpu) || !is_known || action == "None") continue;
    add_to(found, "GPU " + std::string(gpu) + " needs: " + std::string(action));
  }
  return found.empty() ? found : found + " (nvidia-smi, gpu_recovery_action)";
}

std::string errors_of(const findings& found) {
  std::string text;
  for (const finding& each : found) {
    const bool comes_and_goes = each.check == "shared memory" || each.check == "disk";
    if (each.state == health::error && comes_and_goes) add_to(text, each.check + ": " + each.seen);
  }
  return text;
}

std::string health_now(const std::filesystem::path& root, const environment_map& environment) {
  std::string text = errors_of(check_room(root, environment));
  std::error_code error;
  if (std::filesystem::exists(root / "proc/driver/nvidia/version", error)) {
    add_to(text,
           judge_recovery(program_answer(
               {"nvidia-smi", "--query-gpu=index,gpu_recovery_action", "--format=csv,noheader"},
               environment, nvidia_smi_limit, answer_bytes_max)));
  }
  return text;
}

}  // namespace ddprun::launcher::doctor
