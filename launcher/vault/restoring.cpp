#include "launcher/vault/restoring.hpp"

#include "launcher/base/size_text.hpp"

#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::chrono::seconds told_interval{5};

}  // namespace

restoring::restoring(desk& to, std::string name, std::string where)
    : to_(to), name_(std::move(name)), where_(std::move(where)) {}

void restoring::begin(std::uint64_t all) {
  all_ = all;
  come_ = 0;
  say();
}

void restoring::add(std::uint64_t bytes) {
  come_ += bytes;
  if (bytes != 0 && std::chrono::steady_clock::now() >= again_) say();
}

void restoring::say() {
  again_ = std::chrono::steady_clock::now() + told_interval;
  to_.tell(note_level::info, "restoring " + name_ + " from " + where_ + ": " + size_text(come_) +
                                 " of " + size_text(all_));
}

}  // namespace ddprun::launcher::vault
