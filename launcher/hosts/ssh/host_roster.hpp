// A host roster is what the head remembers of hosts that come and go: which are listed now, how
// often each has failed, and how long it rests after that.
//
// A host keeps its number for good, even if it leaves and returns. After a failure it rests for a
// second, after each further one for twice as long, up to five minutes. The pauses differ by host,
// so that hosts that have failed together return one by one. A host that has run for as long as the
// longest rest starts over with a second.
//
// Hosts are numbered from 0.
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
    std::vector<std::size_t> come;     // new, or listed again
    std::vector<std::size_t> gone;     // no longer listed
    std::vector<std::size_t> resized;  // with another number of workers, or another user
    bool is_none() const { return come.empty() && gone.empty() && resized.empty(); }
  };

  // `number_counts`: "a" and "a:1" differ, because --nproc-per-node gives the workers of the first.
  host_roster(std::uint64_t seed, bool number_counts)
      : seed_(seed), number_counts_(number_counts) {}

  // `known` are the hosts by number. New ones are appended.
  change take(std::vector<host>& known, const std::vector<host>& listed);
  bool is_listed(std::size_t number) const { return entries_[number].is_listed; }

  // Records a failure of a host that had run for `ran` (0: not at all). Returns how long it rests.
  duration failed(std::size_t number, duration ran, time_point now);
  // The rest goes on while a host is not listed: leaving and returning does not undo its failures.
  time_point rests_until(std::size_t number) const { return entries_[number].rests_until; }
  std::uint32_t failures(std::size_t number) const { return entries_[number].failures; }
  // Never tries the host again, unless it has been off the list in between.
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
