#include "launcher/hosts/ssh/host_faults.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/net/resolve.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::string_view marks = ":,.;[]";

// "root@10.0.0.2:" names a host, and so does "node-b".
bool names_host(std::string_view word, std::string_view host) {
  word.remove_prefix(std::min(word.size(), word.find('@') + 1));
  const std::size_t begin = std::min(word.find_first_not_of(marks), word.size());
  word.remove_prefix(begin);
  word = word.substr(0, word.find_last_not_of(marks) + 1);
  return word == host || net::numeric_address(std::string(word)).has_value();
}

std::string without_names(std::string_view why, std::string_view host) {
  std::string text;
  for (const std::string_view word : split(why, ' ')) {
    text += ' ';
    if (!names_host(word, host)) text += word;
  }
  return text;
}

}  // namespace

void host_faults::add(const std::string& host, const std::string& why) {
  const std::string same_words = without_names(why, host);
  const auto found = std::find_if(faults_.begin(), faults_.end(),
                                  [&](const fault& one) { return one.same_words == same_words; });
  if (found != faults_.end()) return found->hosts.push_back(host);
  faults_.push_back({same_words, why, {host}});
}

std::vector<std::string> host_faults::take(const std::string& between) {
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (const fault& one : std::exchange(faults_, {})) {
    if (lines.size() == lines_max) {
      more += one.hosts.size();
    } else {
      lines.push_back(text_of_names(one.hosts) + between + one.why);
    }
  }
  if (more > 0) lines.push_back(counted(more, "more host") + between + "other reasons");
  return lines;
}

}  // namespace ddprun::launcher::ssh
