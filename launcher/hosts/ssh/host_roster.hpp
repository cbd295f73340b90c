// The roster is what the head remembers of hosts that come and go: which of them are listed now,
// how often each has failed, and how long it rests for that.
//
// A host keeps its number for good, also when it is gone and comes back. A failure makes it rest
// for a second, each further one for twice as long, up to five minutes; hosts that have failed
// together come back one by one. One that has run well for as long as the longest rest begins anew.
//
// Hosts are numbers from 0.
#pragma once

#include "launcher/hosts/ssh/host_list.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::launcher::ssh {

inline constexpr duration first_rest = std::chrono::seconds(1);
inline constexpr duration rest_max = std::chrono::minutes(5);

class host_roster {
 public:
  struct change {
    std::vector<std::size_t> come;     // new, or back again
    std::vector<std::size_t> gone;     // no longer listed
    std::vector<std::size_t> resized;  // with another number of workers, or another user
    bool is_none() const { return come.empty() && gone.empty() && resized.empty(); }
  };

  // `number_counts`: "a" and "a:1" are not the same, as another number stands for the first.
  host_roster(std::uint64_t seed, bool number_counts)
      : seed_(seed), number_counts_(number_counts) {}

  // `known` are the hosts by number; new ones are put behind them.
  change take(std::vector<host>& known, const std::vector<host>& listed);
  bool is_listed(std::size_t number) const { return entries_[number].is_listed; }

  // It has failed, after having run so long (0: not at all): how long it rests.
  duration failed(std::size_t number, duration ran, time_point now);
  // Until then, whether it is listed or not: a host that comes and goes has failed as often.
  time_point rests_until(std::size_t number) const { return entries_[number].rests_until; }
  std::uint32_t failures(std::size_t number) const { return entries_[number].failures; }
  // It is not to be tried again before it has been away.
  void set_aside(std::size_t number) { entries_[number].is_set_aside = true; }
  bool may_run(std::size_t number) const {
    return entries_[number].is_listed && !entries_[number].is_set_aside;
  }

 private:
  struct entry {
    bool is_listed = false;
    bool is_set_aside = false;
    std::uint32_t failures = 0;
    time_point rests_until{};
  };

  bool is_same_place(const host& one, const host& other) const;

  std::uint64_t seed_;
  bool number_counts_;
  std::vector<entry> entries_;
};

}  // namespace ddprun::launcher::ssh
