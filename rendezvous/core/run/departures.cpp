#include "rendezvous/core/run/departures.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/signals.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ddprun::core {
namespace {

// "node-b (10.0.0.2, ranks 2 and 3)".
std::string subject(const departed_node& one) {
  std::vector<std::uint32_t> ranks(one.worker_count);
  std::iota(ranks.begin(), ranks.end(), one.rank_first);
  if (!one.was_member) return one.address.empty() ? one.node : one.node + " (" + one.address + ")";
  const std::string address = one.address.empty() ? "" : one.address + ", ";
  return one.node + " (" + address + text_of_ranks(ranks) + ")";
}

std::string verb(const cause& why, bool are_many) {
  if (why.kind == cause_class::node_lost) return are_many ? " were lost" : " was lost";
  return why.code == 0 ? " left" : " left on " + signal_name(why.code);
}

}  // namespace

void departures::add(const session_id& who, departed_node gone) {
  if (!gone.was_member && waited_.size() >= gone_waiting_max) return;
  auto& among = gone.was_member ? gone_ : waited_;
  among.try_emplace(who, entry{std::move(gone), next_order_++});
}

void departures::drop(const session_id& who) {
  gone_.erase(who);
  waited_.erase(who);
}

void departures::drop_waiting(const std::string& lasting_name) {
  std::erase_if(waited_,
                [&](const auto& one) { return one.second.node.lasting_name == lasting_name; });
}

const departures::entry& departures::first() const {
  const auto& among = gone_.empty() ? waited_ : gone_;
  return std::min_element(among.begin(), among.end(),
                          [](const auto& left, const auto& right) {
                            return left.second.order < right.second.order;
                          })
      ->second;
}

std::optional<departure> departures::told(time_point now) const {
  if (gone_.empty() && waited_.empty()) return std::nullopt;
  const departed_node& one = first().node;
  departure said;
  said.what = subject(one);
  const std::size_t others = gone_.size() + waited_.size() - 1;
  if (others != 0) said.what += " and " + counted(others, "more node");
  said.what += verb(one.cause, others != 0);
  said.age = std::max(now - one.at, duration::zero());
  said.why = one.cause.text;
  return said;
}

std::string departures::change(const std::vector<std::string>& newcomers, std::size_t count) const {
  std::vector<std::pair<std::uint64_t, std::string>> in_order;
  for (const auto& [session, one] : gone_)
    in_order.emplace_back(one.order, one.node.node);
  std::sort(in_order.begin(), in_order.end());
  std::vector<std::string> missing;
  for (auto& [order, name] : in_order)
    missing.push_back(std::move(name));
  if (missing.empty() && newcomers.empty()) return {};
  if (missing.empty()) {
    return text_of_names(newcomers, count) + (count == 1 ? " has joined" : " have joined");
  }
  if (newcomers.empty()) return "going on without " + text_of_names(missing);
  if (missing == newcomers) {
    return text_of_names(missing) + (count == 1 ? " is back" : " are back");
  }
  return text_of_names(missing) + (missing.size() == 1 ? " was" : " were") + " replaced by " +
         text_of_names(newcomers, count);
}

bool departures::has_lost() const {
  return std::any_of(gone_.begin(), gone_.end(), [](const auto& one) {
    return one.second.node.cause.kind == cause_class::node_lost;
  });
}

}  // namespace ddprun::core
