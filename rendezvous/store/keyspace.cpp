#include "rendezvous/store/keyspace.hpp"

#include "rendezvous/store/session.hpp"

#include <cstdint>
#include <random>
#include <utility>

namespace ddprun::store {

namespace {

core::hash_seed secret_seed() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  const std::uint64_t first = word();
  return {first, word()};
}

}  // namespace

keyspace::keyspace(keyspace_options options)
    : options_(std::move(options)),
      values_(options_.limits, secret_seed()),
      replies_(std::make_unique<protocol::tcpstore::replies>()) {
  values_.on_shortage([this] { return cut_stalled(); });
}

keyspace::~keyspace() = default;

void keyspace::add(session& member, core::key_value_store::client_id id) {
  if (id >= sessions_.size()) sessions_.resize(id + 1, nullptr);
  // Reserve the room now, so that waking a client never needs memory.
  waking_.reserve(values_.woken().capacity());
  sessions_[id] = &member;
  ++session_count_;
}

void keyspace::remove(core::key_value_store::client_id id) {
  sessions_[id] = nullptr;
  --session_count_;
}

void keyspace::notify_if_empty() {
  if (session_count_ == 0 && when_empty_) std::exchange(when_empty_, nullptr)();
}

// Ending one session wakes others and may end them, so iterate by index.
void keyspace::cut() {
  for (std::size_t id = 0; id < sessions_.size(); ++id) {
    if (sessions_[id] != nullptr) sessions_[id]->shared_from_this()->cut();
  }
}

void keyspace::finish() {
  finishing_ = true;
  for (std::size_t id = 0; id < sessions_.size(); ++id) {
    if (sessions_[id] != nullptr) sessions_[id]->shared_from_this()->finish();
  }
}

void keyspace::when_empty(std::function<void()> handler) {
  if (session_count_ == 0) {
    handler();
    return;
  }
  when_empty_ = std::move(handler);
}

void keyspace::deliver_woken() {
  if (delivering_) return;
  delivering_ = true;
  // A session that turns out to be dead drops its wait, which may wake another client.
  while (!values_.woken().empty()) {
    waking_.assign(values_.woken().begin(), values_.woken().end());
    values_.woken().clear();
    for (const auto id : waking_) {
      if (sessions_[id] != nullptr) sessions_[id]->shared_from_this()->wake();
    }
  }
  delivering_ = false;
}

std::unique_ptr<protocol::tcpstore::replies> keyspace::take_replies() {
  auto empty = std::make_unique<protocol::tcpstore::replies>();
  return std::exchange(replies_, std::move(empty));
}

std::uint64_t keyspace::stalled(session& member) {
  stalled_.emplace(++last_ticket_, &member);
  return last_ticket_;
}

// Gives up the session that has stalled longest, and frees its memory.
bool keyspace::cut_stalled() {
  if (stalled_.empty()) return false;
  session* const longest = stalled_.begin()->second;
  stalled_.erase(stalled_.begin());
  longest->give_up();
  return true;
}

std::uint64_t keyspace::mute(session& member) {
  mute_.emplace(++last_ticket_, silence{std::chrono::steady_clock::now(), &member});
  count_mute();
  return last_ticket_;
}

void keyspace::speaks(std::uint64_t ticket) {
  if (mute_.erase(ticket) != 0) count_mute();
}

void keyspace::count_mute() {
  mute_count_ = mute_.size();
  const time_point oldest = mute_.empty() ? time_point::max() : mute_.begin()->second.since;
  oldest_mute_ = oldest.time_since_epoch().count();
}

void keyspace::cut_mute(std::size_t mute_max, std::size_t connections_max) {
  while (!mute_.empty() && (mute_.size() > mute_max || session_count_ > connections_max)) {
    mute_.begin()->second.member->shared_from_this()->cut_mute();
  }
}

bool keyspace::cut_oldest_mute() {
  if (mute_.empty()) return false;
  mute_.begin()->second.member->shared_from_this()->cut_mute();
  return true;
}

bool keyspace::charge_buffered(std::size_t bytes) {
  while (bytes > options_.buffered_bytes_max - buffered_bytes_) {
    if (!cut_stalled()) return false;
  }
  buffered_bytes_ += bytes;
  return true;
}

void keyspace::release_buffered(std::size_t bytes) {
  buffered_bytes_ -= bytes;
}

// Strangers have a limit of their own, so that many of them cannot hide messages about clients.
void keyspace::log(note_level level, std::string text) {
  log_limit& limit = level == note_level::info ? strangers_ : others_;
  const auto line = limit.admit(std::move(text), std::chrono::steady_clock::now());
  if (line && options_.log) options_.log(level, *line);
}

}  // namespace ddprun::store
