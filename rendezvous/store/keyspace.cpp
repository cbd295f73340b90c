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
    : options_(std::move(options)), values_(options_.limits, secret_seed()) {}

keyspace::~keyspace() = default;

void keyspace::add(session& member, core::key_value_store::client_id id) {
  if (id >= sessions_.size()) sessions_.resize(id + 1, nullptr);
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

// Ending one session may end others that it wakes, so the list is walked by index.
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

void keyspace::deliver_wakes() {
  if (delivering_) return;
  delivering_ = true;
  // A session that turns out to be dead drops its wait, which may wake another client.
  while (!values_.woken().empty()) {
    const auto woken = std::exchange(values_.woken(), {});
    for (const auto id : woken) {
      if (sessions_[id] != nullptr) sessions_[id]->shared_from_this()->wake();
    }
  }
  delivering_ = false;
}

bool keyspace::charge_unfinished(std::size_t bytes) {
  if (bytes > options_.unfinished_bytes_max - unfinished_bytes_) return false;
  unfinished_bytes_ += bytes;
  return true;
}

void keyspace::release_unfinished(std::size_t bytes) {
  unfinished_bytes_ -= bytes;
}

void keyspace::log(note_level level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

}  // namespace ddprun::store
