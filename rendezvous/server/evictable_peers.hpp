// evictable_peers holds those peers of a port that may be closed, the one that has waited longest
// first: where connections or memory are short, that one goes, so that a new one can come in.
//
// Ownership: of nobody; whoever enters leaves before it ends, unless it was let go of.
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

  // What all who wait may hold together of messages that have not come in full.
  static constexpr std::size_t bytes_max_by_default = std::size_t{4} << 20;

  explicit evictable_peers(std::size_t bytes_max = bytes_max_by_default) : bytes_max_(bytes_max) {}
  evictable_peers(const evictable_peers&) = delete;
  evictable_peers& operator=(const evictable_peers&) = delete;

  // `let_go` closes the connection at once. It is called at most once, and has left by then; it may
  // enter again, or be destroyed by what it does.
  ticket enter(std::function<void()> let_go);
  void leave(ticket whose);

  // So many bytes are held for it now. Those who have waited longest and hold some go until all is
  // within the limit: this one may be among them.
  void hold(ticket whose, std::size_t bytes);

  // False where nobody waits.
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
