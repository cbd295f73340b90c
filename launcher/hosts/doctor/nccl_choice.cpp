#include "launcher/hosts/doctor/nccl_choice.hpp"

#include <algorithm>
#include <initializer_list>
#include <sstream>

namespace ddprun::launcher::doctor {
namespace {

// NCCL's list of interfaces, with its forms.
struct interface_filter {
  std::vector<std::string> names;
  bool is_whole = false;
  bool leaves_out = false;

  bool lets_through(const std::string& interface) const {
    const bool is_named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return is_whole ? interface == name : interface.starts_with(name);
    });
    return is_named != leaves_out;
  }
};

interface_filter filter_of(std::string wanted) {
  interface_filter made;
  made.leaves_out = wanted.starts_with('^');
  if (made.leaves_out) wanted.erase(0, 1);
  made.is_whole = wanted.starts_with('=');
  if (made.is_whole) wanted.erase(0, 1);
  std::istringstream parts(wanted);
  for (std::string part; std::getline(parts, part, ',');) {
    if (!part.empty()) made.names.push_back(part.substr(0, part.find(':')));
  }
  return made;
}

bool suits_nccl(const interface_address& each) {
  const bool is_v6 = each.value.is_v6();
  return !(is_v6 && (each.value.is_loopback() || each.value.to_v6().is_link_local()));
}

}  // namespace

std::optional<interface_address> nccl_choice(const std::vector<interface_address>& own,
                                             const std::string& wanted) {
  const std::initializer_list<std::string> by_itself = {"ib", "^docker,lo,virbr", "docker", "lo",
                                                        "virbr"};
  const std::initializer_list<std::string> by_wish = {wanted};
  for (const std::string& each : wanted.empty() ? by_itself : by_wish) {
    const interface_filter filter = filter_of(each);
    for (const interface_address& candidate : own) {
      if (suits_nccl(candidate) && filter.lets_through(candidate.interface)) return candidate;
    }
  }
  return {};
}

}  // namespace ddprun::launcher::doctor
