#include "rendezvous/server/evictable_peers.hpp"

#include <utility>

namespace ddprun::server {

evictable_peers::ticket evictable_peers::enter(std::function<void()> let_go) {
  waiting_.emplace(++last_, peer{std::move(let_go)});
  return last_;
}

void evictable_peers::leave(ticket whose) {
  const auto found = waiting_.find(whose);
  if (found == waiting_.end()) return;
  bytes_ -= found->second.bytes;
  holders_.erase(whose);
  waiting_.erase(found);
}

void evictable_peers::hold(ticket whose, std::size_t bytes) {
  const auto found = waiting_.find(whose);
  if (found == waiting_.end()) return;
  // Unsigned arithmetic: the difference may be negative.
  bytes_ += bytes - found->second.bytes;
  found->second.bytes = bytes;
  if (bytes == 0) {
    holders_.erase(whose);
  } else {
    holders_.insert(whose);
  }
  while (bytes_ > bytes_max_ && !holders_.empty())
    let_go(*holders_.begin());
}

bool evictable_peers::let_oldest_go() {
  if (waiting_.empty()) return false;
  let_go(waiting_.begin()->first);
  return true;
}

void evictable_peers::let_go(ticket whose) {
  const auto close = std::move(waiting_.at(whose).let_go);
  leave(whose);
  close();
}

}  // namespace ddprun::server
