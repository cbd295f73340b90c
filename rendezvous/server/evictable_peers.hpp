// evictable_peers holds the peers of a port that may be closed to make room. When connections or
// memory run short, the one that has waited longest is closed.
//
// Ownership: owns no peer. A peer leaves before it is destroyed, unless it was evicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace ddprun::server {

class evictable_peers {
 public:
  using ticket = std::uint64_t;  // counts up from 1

  // How much memory the unfinished messages of all peers may take together.
  static constexpr std::size_t bytes_max_by_default = std::size_t{4} << 20;

  explicit evictable_peers(std::size_t bytes_max = bytes_max_by_default) : bytes_max_(bytes_max) {}
  evictable_peers(const evictable_peers&) = delete;
  evictable_peers& operator=(const evictable_peers&) = delete;

  // `let_go` must close the connection at once. It is called at most once, after the peer was
  // removed, so it may enter again or destroy the peer.
  ticket enter(std::function<void()> let_go);
  void leave(ticket whose);

  // Sets how many bytes are held for this peer. While the total exceeds the limit, the peers that
  // have waited longest and hold some are evicted, possibly this one.
  void hold(ticket whose, std::size_t bytes);

  // Returns false if no peer waits.
  bool let_oldest_go();

  std::size_t size() const { return waiting_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct peer {
    std::function<void()> let_go;
    std::size_t bytes = 0;
  };
  void let_go(ticket whose);

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  ticket last_ = 0;
  std::map<ticket, peer> waiting_;
  std::set<ticket> holders_;
};

}  // namespace ddprun::server
