#include "launcher/hosts/doctor/search_path.hpp"

#include "launcher/base/begun_task.hpp"
#include "launcher/base/text.hpp"
#include "launcher/hosts/doctor/network_facts.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <sys/stat.h>

namespace ddprun::launcher::doctor {
namespace {

// An empty entry of PATH means the working directory, which is checked anyway.
std::vector<std::string> folders_of(const environment_map& environment) {
  std::vector<std::string> folders = {"."};
  const std::string path = variable_or_empty(environment, "PATH");
  for (const std::string_view each : split(std::string_view(path), ':')) {
    if (!each.empty() && std::find(folders.begin(), folders.end(), each) == folders.end())
      folders.emplace_back(each);
  }
  return folders;
}

bool look_at(const std::string& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0;
}

}  // namespace

std::vector<std::string> find_silent_folders(const environment_map& environment) {
  const std::vector<std::string> folders = folders_of(environment);
  const auto all_answer = within(patience, [folders] {
    std::for_each(folders.begin(), folders.end(), look_at);
    return true;
  });
  if (all_answer) return {};
  std::vector<std::string> silent;
  for (const std::string& folder : folders) {
    if (!within(short_patience, [folder] { return look_at(folder); })) silent.push_back(folder);
  }
  return silent;
}

findings judge_silent_folders(const std::vector<std::string>& silent) {
  findings found;
  for (const std::string& folder : silent) {
    const bool is_working_directory = folder == ".";
    found.push_back(
        {"folders", health::error,
         (is_working_directory ? "the working directory" : folder + ", a folder of PATH,") +
             std::string(" gives no answer"),
         is_working_directory
             ? "is its file server up? start the job in another folder"
             : "is its file server up? whatever looks for a program hangs there: take it out of "
               "PATH"});
  }
  return found;
}

environment_map without_folders(environment_map environment,
                                const std::vector<std::string>& silent) {
  const auto path = environment.find("PATH");
  if (silent.empty() || path == environment.end()) return environment;
  std::string kept;
  for (const std::string_view each : split(std::string_view(path->second), ':')) {
    const std::string_view folder = each.empty() ? "." : each;
    if (std::find(silent.begin(), silent.end(), folder) != silent.end()) continue;
    kept += (kept.empty() ? "" : ":") + std::string(folder);
  }
  path->second = kept;
  return environment;
}

}  // namespace ddprun::launcher::doctor
