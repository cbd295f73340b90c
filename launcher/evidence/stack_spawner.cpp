#include "launcher/evidence/stack_spawner.hpp"

#include "launcher/evidence/stack_request.hpp"
#include "launcher/warm/site_zip.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

bool has_entry(const spawn_request& request, const std::string& beginning) {
  const auto& entries = request.environment;
  return std::any_of(entries.begin(), entries.end(),
                     [&](const std::string& entry) { return entry.starts_with(beginning); });
}

}  // namespace

stack_spawner::stack_spawner(spawner& inner, std::string server_folder)
    : inner_(inner), answers_{stack_signal, std::move(server_folder)} {
  auto made = warm::make_site_zip("import ddprun_stacks\nddprun_stacks.begin(" +
                                  warm::python_arguments(answers_) + ")\n");
  if (!made) return;
  site_ = std::move(*made);
  path_ = warm::path_for_others(site_);
}

// A worker has LOCAL_RANK in its environment; a zygote has not.
spawn_result stack_spawner::spawn(const spawn_request& request, spawn_handlers handlers) {
  const std::string ours = "PYTHONPATH=" + path_.substr(0, path_.rfind('/') + 1);
  const bool is_plain = site_ && has_entry(request, "LOCAL_RANK=") && !has_entry(request, ours);
  if (!is_plain) return inner_.spawn(request, std::move(handlers));
  spawn_request with = request;
  with.environment = warm::with_site_zip(std::move(with.environment), path_);
  return inner_.spawn(with, std::move(handlers));
}

}  // namespace ddprun::launcher::evidence
