#include "launcher/vault/desk.hpp"

#include <utility>

namespace ddprun::launcher::vault {

void desk::tell(note_level level, const std::string& text) {
  const std::lock_guard lock(telling_);
  if (to_) to_(level, "vault: " + text);
}

void desk::tell_once(const std::string& kind, const std::string& text) {
  {
    const std::lock_guard lock(telling_);
    if (std::exchange(told_[kind], text) == text) return;
  }
  if (!text.empty()) tell(note_level::warning, text);
}

void desk::tell_to(teller to) {
  const std::lock_guard lock(telling_);
  to_ = std::move(to);
}

void desk::hurry() {
  const std::lock_guard lock(mutex);
  ++hurries_asked;
  changed.notify_all();
}

bool desk::is_set_aside(const owned_version& which) {
  const std::lock_guard lock(mutex);
  return set_aside.contains(which);
}

void desk::note_damaged(const std::string& kept) {
  const std::lock_guard lock(mutex);
  damaged.insert(kept);
}

bool desk::is_damaged(const std::string& kept) {
  const std::lock_guard lock(mutex);
  return damaged.contains(kept);
}

origin desk::origin_of(const owned_version& which) {
  const std::lock_guard lock(mutex);
  return origins.of(which);
}

}  // namespace ddprun::launcher::vault
