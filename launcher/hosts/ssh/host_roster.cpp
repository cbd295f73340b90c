#include "launcher/hosts/ssh/host_roster.hpp"

#include "launcher/hosts/ssh/pause.hpp"

#include <algorithm>

namespace ddprun::launcher::ssh {

bool host_roster::is_same_place(const host& one, const host& other) const {
  return one.slots == other.slots && one.user == other.user &&
         (!number_counts_ || one.has_number == other.has_number);
}

host_roster::change host_roster::take(std::vector<host>& known, const std::vector<host>& listed) {
  change what;
  std::vector<bool> is_here(known.size(), false);
  for (const host& each : listed) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const host& one) { return one.name == each.name; });
    const auto number = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(each);
      is_here.push_back(false);
    }
    entries_.resize(known.size());
    is_here[number] = true;
    if (!entries_[number].is_listed) {
      what.come.push_back(number);
    } else if (!is_same_place(known[number], each)) {
      what.resized.push_back(number);
    }
    known[number] = each;
  }
  for (std::size_t number = 0; number < entries_.size(); ++number) {
    entry& one = entries_[number];
    if (one.is_listed && !is_here[number]) {
      what.gone.push_back(number);
      // A host that was away gets another chance when it returns.
      one.is_set_aside = false;
    }
    one.is_listed = is_here[number];
  }
  return what;
}

duration host_roster::failed(std::size_t number, duration ran, time_point now) {
  entry& one = entries_[number];
  // It has run long enough: its earlier failures no longer count.
  if (ran >= rest_max) one.failures = 0;
  const duration rest = pause_after(one.failures, first_rest, rest_max, seed_, number);
  ++one.failures;
  one.rests_until = now + rest;
  return rest;
}

}  // namespace ddprun::launcher::ssh
