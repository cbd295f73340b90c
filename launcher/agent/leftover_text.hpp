// What is said about processes that workers leave behind.
//
// Thread rule: pure functions.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct leftover_line {
  note_level level = note_level::info;
  std::string text;
};

// `grace` is that of --children-grace; none: they are left alone.
leftover_line children_line(const worker_group::left_behind& left, std::optional<duration> grace);

// Those that have survived SIGKILL; each as "rsync (4711)".
leftover_line strays_line(const std::vector<std::string>& strays);

}  // namespace ddprun::launcher
