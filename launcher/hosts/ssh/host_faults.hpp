// The host faults are problems of hosts, such as why no agent could be started: hosts with the same
// fault share a line, so that the user sees at once what to repair, and where.
//
// Faults are the same if their texts are, ignoring the host's own name or address in them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher::ssh {

class host_faults {
 public:
  // So many different faults are printed; for others only the number of hosts.
  static constexpr std::size_t lines_max = 8;

  // `why` is the text from ssh or ddprun there; it may have several lines.
  void add(const std::string& host, const std::string& why);
  bool is_empty() const { return faults_.empty(); }

  // "node-b, node-c and 12 more: no agent was started: Permission denied", with `between` after the
  // hosts and the text of the first host; one line for each fault. Removes them all.
  std::vector<std::string> take(const std::string& between);

 private:
  struct fault {
    std::string same_words;  // without names
    std::string why;
    std::vector<std::string> hosts;
  };

  std::vector<fault> faults_;
};

}  // namespace ddprun::launcher::ssh
