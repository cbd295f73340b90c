#include "launcher/node/gpu_holders.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/cli/processor_count.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <pwd.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t holders_shown = 8;
// A process that was started by itself, or longer, is a mistake of the files.
constexpr int generations_max = 64;

// As /proc has their names, of 15 letters.
constexpr std::array<std::string_view, 7> services = {
    "nvidia-persiste", "nv-hostengine", "dcgm-exporter", "dcgm",
    "nvidia-device-p", "nvidia-smi",    "ddprun-nvml"};

bool is_process_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string user_name(uid_t user) {
  const passwd* const found = getpwuid(user);
  return found == nullptr ? std::to_string(user) : found->pw_name;
}

bool holds_a_gpu(const fs::path& process) {
  std::error_code error;
  for (const std::string& name : names_in(process / "fd")) {
    const fs::path target = fs::read_symlink(process / "fd" / name, error);
    if (!error && target.parent_path() == "/dev" && is_nvidia_gpu(target.filename().string()))
      return true;
  }
  return false;
}

// What stands after "NAME:" in a process's status; empty: it is not there.
std::string status_value(const fs::path& root, pid_t process, const std::string& name) {
  const std::string text = "\n" + whole_text(root / "proc" / std::to_string(process) / "status");
  const std::string begin = "\n" + name + ":";
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return {};
  const std::size_t from = at + begin.size();
  return std::string(trimmed(std::string_view(text).substr(from, text.find('\n', from) - from)));
}

// It has ended, but its parent has not reaped it yet.
bool is_zombie(const fs::path& root, pid_t process) {
  const std::string state = status_value(root, process, "State");
  return state.starts_with("Z") || state.starts_with("X");
}

}  // namespace

std::vector<gpu_holder> find_gpu_holders(const fs::path& root) {
  std::vector<gpu_holder> holders;
  for (const std::string& name : names_in(root / "proc")) {
    const fs::path process = root / "proc" / name;
    if (!is_process_number(name) || !holds_a_gpu(process)) continue;
    struct stat owner {};
    if (stat(process.c_str(), &owner) != 0) continue;  // it has ended
    const auto number = static_cast<pid_t>(std::stol(name));
    if (is_zombie(root, number)) continue;
    const std::string program = first_line(process / "comm").value_or("?");
    holders.push_back({number, in_one_line(to_valid_utf8(program)), user_name(owner.st_uid)});
  }
  return holders;
}

bool is_gpu_service(const gpu_holder& one) {
  return std::find(services.begin(), services.end(), one.program) != services.end();
}

bool descends_from(const fs::path& root, pid_t process, pid_t ancestor) {
  for (int generation = 0; generation < generations_max && process > 1; ++generation) {
    const auto parent = whole_number<pid_t>(status_value(root, process, "PPid"));
    if (!parent) return false;
    if (*parent == ancestor) return true;
    process = *parent;
  }
  return false;
}

bool is_being_killed(const fs::path& root, pid_t process) {
  const auto is_pending = [&](const char* signals) {
    const std::string mask = status_value(root, process, signals);
    return (std::strtoull(mask.c_str(), nullptr, 16) >> (SIGKILL - 1) & 1) != 0;
  };
  return is_pending("SigPnd") || is_pending("ShdPnd");
}

std::string holders_text(const std::vector<gpu_holder>& holders) {
  std::string text;
  for (std::size_t index = 0; index < std::min(holders.size(), holders_shown); ++index) {
    const gpu_holder& one = holders[index];
    text += (index == 0 ? "" : ", ") + std::to_string(one.process) + " " + one.program + " (" +
            one.user + ")";
  }
  if (holders.size() > holders_shown)
    text += " and " + std::to_string(holders.size() - holders_shown) + " more";
  return text;
}

}  // namespace ddprun::launcher
