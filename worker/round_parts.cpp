#include "worker/round_parts.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace ddprun::worker {
namespace {

struct known_parts {
  std::mutex mutex;
  std::vector<std::weak_ptr<round_part>> parts;
};

// It is never destroyed, because parts may be added and listed while the process exits.
known_parts& known() {
  static auto& made = *new known_parts;
  return made;
}

std::atomic<bool> stays{false};
std::atomic<int> store_users{0};
std::atomic<bool> is_over{false};

}  // namespace

void add_round_part(const std::weak_ptr<round_part>& part) {
  const std::lock_guard lock(known().mutex);
  auto& parts = known().parts;
  // Drop expired parts, so that a program that keeps making groups does not grow the list.
  parts.erase(
      std::remove_if(parts.begin(), parts.end(), [](const auto& each) { return each.expired(); }),
      parts.end());
  parts.push_back(part);
}

std::vector<std::shared_ptr<round_part>> round_parts() {
  const std::lock_guard lock(known().mutex);
  std::vector<std::shared_ptr<round_part>> living;
  for (const auto& each : known().parts) {
    if (auto part = each.lock()) living.push_back(std::move(part));
  }
  return living;
}

void stay_in_round() {
  stays = true;
}

bool can_leave_round() {
  return !stays;
}

void set_round_is_over(bool now) {
  is_over = now;
}

bool is_round_over() {
  return is_over;
}

round_store_in_use::round_store_in_use() {
  ++store_users;
}

round_store_in_use::~round_store_in_use() {
  --store_users;
}

bool is_round_store_in_use() {
  return store_users > 0;
}

}  // namespace ddprun::worker
