#include "rendezvous/core/run/kept_record.hpp"

#include <algorithm>

namespace ddprun::core {

std::optional<std::uint64_t> kept_record::ask(const std::optional<run_record>& record) {
  if (record == newest_) return std::nullopt;
  newest_ = record;
  return ++revision_;
}

void kept_record::set_kept(std::uint64_t revision) {
  kept_ = std::max(kept_, revision);
}

bool kept_record::is_kept(const std::optional<run_record>& record) const {
  return kept_ >= revision_ && record == newest_;
}

}  // namespace ddprun::core
