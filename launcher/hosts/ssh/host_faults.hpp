// The host faults are what is wrong on hosts, such as why no agent could be started: those with one
// fault share a line, so that a person sees at once what is to be mended, and where.
//
// Faults are the same where their words are, but for the host's own name or address in them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher::ssh {

class host_faults {
 public:
  // So many different ones are told; of more, only how many hosts have them.
  static constexpr std::size_t lines_max = 8;

  // `why` is ssh's or ddprun's words there; it may have several lines.
  void add(const std::string& host, const std::string& why);
  bool is_empty() const { return faults_.empty(); }

  // "node-b, node-c and 12 more: no agent was started: Permission denied", with what stands between
  // the hosts and the words of the first of them; a text for each fault. Then there are none.
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
