#include "rendezvous/core/run/roster.hpp"

#include "rendezvous/base/error.hpp"

namespace ddprun::core {

node& roster::admit(const hello& greeting) {
  auto owned = std::make_unique<node>();
  node& who = *owned;
  who.greeting = greeting;
  who.order = next_order_++;
  nodes_.emplace(who.order, std::move(owned));
  const bool is_new = by_session_.emplace(greeting.session, &who).second;
  DDPRUN_ASSERT(is_new);
  if (greeting.node_is_explicit) by_given_id_[greeting.node] = &who;
  if (greeting.node_rank) by_given_rank_[*greeting.node_rank].emplace(who.order, &who);
  return who;
}

void roster::remove(node& who) {
  DDPRUN_ASSERT(who.connection == 0 && who.seat == nullptr);
  unwatch(who);
  by_session_.erase(who.greeting.session);
  if (named(who.greeting.node) == &who) by_given_id_.erase(who.greeting.node);
  if (const auto rank = who.greeting.node_rank) {
    auto& same = by_given_rank_.at(*rank);
    same.erase(who.order);
    if (same.empty()) by_given_rank_.erase(*rank);
  }
  nodes_.erase(who.order);
  DDPRUN_ASSERT(by_session_.size() == nodes_.size() && watch_.size() <= nodes_.size());
}

node* roster::find(connection_id connection) const {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

node* roster::find(const session_id& session) const {
  const auto found = by_session_.find(session);
  return found == by_session_.end() ? nullptr : found->second;
}

node* roster::named(const std::string& id) const {
  const auto found = by_given_id_.find(id);
  return found == by_given_id_.end() ? nullptr : found->second;
}

const std::map<std::uint64_t, node*>& roster::of_rank(std::uint32_t node_rank) const {
  static const std::map<std::uint64_t, node*> nobody;
  const auto found = by_given_rank_.find(node_rank);
  return found == by_given_rank_.end() ? nobody : found->second;
}

node& roster::some_connected() const {
  DDPRUN_ASSERT(!by_connection_.empty());
  return *by_connection_.begin()->second;
}

void roster::connect(node& who, connection_id connection) {
  DDPRUN_ASSERT(connection != 0 && who.connection == 0);
  const bool is_new = by_connection_.emplace(connection, &who).second;
  DDPRUN_ASSERT(is_new);
  who.connection = connection;
}

void roster::disconnect(node& who) {
  const std::size_t erased = by_connection_.erase(who.connection);
  DDPRUN_ASSERT(erased == 1);
  who.connection = 0;
}

void roster::watch(node& who, duration silence) {
  unwatch(who);
  who.watch_at = who.heard + silence;
  watch_.emplace(std::pair(who.watch_at, who.order), &who);
}

void roster::unwatch(node& who) {
  watch_.erase({who.watch_at, who.order});
}

std::optional<machine_time> roster::next_look() const {
  if (watch_.empty()) return std::nullopt;
  return watch_.begin()->first.first;
}

node* roster::due(machine_time now) const {
  if (watch_.empty() || watch_.begin()->first.first > now) return nullptr;
  return watch_.begin()->second;
}

}  // namespace ddprun::core
