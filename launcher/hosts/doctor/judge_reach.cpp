#include "launcher/hosts/doctor/judge_pairs.hpp"
#include "launcher/hosts/doctor/node_names.hpp"
#include "launcher/hosts/doctor/pair_schedule.hpp"
#include "rendezvous/base/counted.hpp"

#include <algorithm>
#include <tuple>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::size_t lines_max = 10;

struct trouble {
  path_answer what = path_answer::ok;
  std::string words;
  std::set<std::string> places;  // "10.0.0.2:40111"
  std::size_t tried = 0;         // number of places that were tried
};

// The most frequent failure between two nodes at the address that a job would use. With equal
// counts any of them will do. `stalled` comes from the only path on which much data is sent.
trouble trouble_of(const node_card& to, const peer_seen& seen) {
  std::map<path_answer, std::size_t> counts;
  trouble found;
  for (const path_seen& path : seen.paths) {
    if (path.address != to.address) continue;
    ++found.tried;
    if (path.what != path_answer::ok) ++counts[path.what];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& one, const auto& two) { return one.second < two.second; });
  if (most == counts.end()) return found;
  found.what = most->first;
  for (const path_seen& path : seen.paths) {
    if (path.address != to.address || path.what != found.what) continue;
    found.words = path.words;
    found.places.insert(path.address + " port " + std::to_string(path.port));
  }
  return found;
}

std::string phrase_of(const trouble& found, const cluster_facts& facts,
                      const std::vector<std::string>& names) {
  switch (found.what) {
    case path_answer::refused:
      return "Connection refused";
    case path_answer::no_route:
      return found.words;
    case path_answer::no_answer:
      return "Connection timed out";
    case path_answer::mute:
      return "the connection is accepted, and then nothing comes";
    case path_answer::stalled:
      return "connections open, and large packets are lost";
    case path_answer::other_node:
      for (std::uint32_t node = 0; node < names.size(); ++node) {
        if (facts.cards[node].token == found.words) return names[node] + " answers there";
      }
      return "a node of another doctor answers there";
    case path_answer::stranger:
      return "another program answers there";
    case path_answer::ok:
    case path_answer::failed:
      break;
  }
  return found.words;
}

const char* advice_for(path_answer what) {
  switch (what) {
    case path_answer::refused:
    case path_answer::no_route:
      return "a firewall rejects it, or there is no route: open all TCP ports between the nodes, "
             "because NCCL and Gloo use random ports (net.ipv4.ip_local_port_range), or choose "
             "another network with --network";
    case path_answer::no_answer:
      return "a firewall drops it, or the address belongs to a network that these nodes do not "
             "share: open all TCP ports between the nodes, or choose another network with "
             "--network";
    case path_answer::mute:
      return "something between them takes connections (a proxy, a service mesh) or the node "
             "hangs: "
             "leave the job's ports out of the mesh";
    case path_answer::stalled:
      return "the MTU of some link between them is smaller than that of the interfaces, and ICMP "
             "is "
             "filtered: set the same MTU everywhere (ip link set dev eth0 mtu 1500)";
    case path_answer::other_node:
      return "two nodes have one address, or a NAT is between them: give each node its own, or "
             "choose another network with --network";
    default:
      return "choose another network with --network";
  }
}

// Groups failures from several nodes to one, or from one to several, whichever gives fewer lines.
using group_key = std::tuple<path_answer, std::uint32_t, std::string>;

struct group {
  std::set<std::uint32_t> others;
  std::set<std::string> places;
  std::size_t tried = 0;
};

struct grouping {
  std::map<group_key, group> by_target, by_source;
};

grouping gather(const cluster_facts& facts, const std::vector<std::string>& names,
                std::size_t& pairs, std::size_t& good) {
  grouping made;
  for (std::uint32_t from = 0; from < facts.seen.size(); ++from) {
    if (!facts.seen[from]) continue;
    for (const auto& [to, seen] : facts.seen[from]->peers) {
      if (facts.gone.contains(to)) continue;
      const trouble found = trouble_of(facts.cards[to], seen);
      if (found.tried == 0) continue;
      ++pairs;
      if (found.what == path_answer::ok) {
        ++good;
        continue;
      }
      const std::string phrase = phrase_of(found, facts, names);
      group& target = made.by_target[{found.what, to, phrase}];
      target.others.insert(from);
      target.places.insert(found.places.begin(), found.places.end());
      target.tried = found.tried;
      group& source = made.by_source[{found.what, from, phrase}];
      source.others.insert(to);
    }
  }
  return made;
}

std::string places_of(const group& each) {
  std::string text = *each.places.begin();
  if (each.places.size() > 1) text += " and " + std::to_string(each.places.size() - 1) + " more";
  if (each.others.size() == 1 && each.places.size() < each.tried)
    text += ", of " + counted(each.tried, "port") + " tried";
  return text;
}

void add_groups(const grouping& made, const std::vector<std::string>& names, findings& found) {
  const bool by_target = made.by_target.size() <= made.by_source.size();
  const auto& groups = by_target ? made.by_target : made.by_source;
  std::size_t shown = 0;
  std::size_t left_out = 0;
  for (const auto& [key, each] : groups) {
    const auto& [what, node, phrase] = key;
    if (shown++ >= lines_max) {
      left_out += each.others.size();
      continue;
    }
    const std::string others = list_of(each.others, names);
    found.push_back({what == path_answer::stalled ? "large packets" : "connections", health::error,
                     by_target
                         ? others + " -> " + names[node] + " (" + places_of(each) + "): " + phrase
                         : names[node] + " -> " + others + ": " + phrase,
                     advice_for(what)});
  }
  if (left_out > 0)
    found.push_back({"connections", health::error, "likewise " + counted(left_out, "other pair"),
                     "see --json for each"});
}

void judge_packet_sizes(const cluster_facts& facts, const std::vector<std::string>& names,
                        findings& found) {
  std::map<std::uint64_t, std::set<std::uint32_t>> sizes;
  for (std::uint32_t node = 0; node < facts.cards.size(); ++node) {
    for (const card_address& each : facts.cards[node].addresses) {
      if (each.address == facts.cards[node].address && each.mtu != 0) sizes[each.mtu].insert(node);
    }
  }
  if (sizes.empty()) return;
  std::string shown;
  for (const auto& [size, nodes] : sizes) {
    shown += (shown.empty() ? "" : ", ") + std::to_string(size) +
             (sizes.size() > 1 ? " on " + list_of(nodes, names) : " on all");
  }
  found.push_back({"MTU", sizes.size() > 1 ? health::warning : health::ok, shown,
                   sizes.size() > 1 ? "set the same everywhere: RDMA and UDP packets are lost "
                                      "if the other side takes less"
                                    : ""});
}

// Empty if every pair was tried.
std::string share_text(std::size_t nodes) {
  if (nodes <= all_pairs_max) return {};
  const std::size_t tried = order_of_others(0, static_cast<std::uint32_t>(nodes)).size();
  return "; each node has tried " + std::to_string(tried) + " of its " + std::to_string(nodes - 1) +
         " others, as not all pairs are beyond " + std::to_string(all_pairs_max) + " nodes";
}

}  // namespace

findings judge_reach(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  std::size_t pairs = 0;
  std::size_t good = 0;
  const grouping made = gather(facts, names, pairs, good);
  findings found;
  if (pairs > 0)
    found.push_back({"connections", good == pairs ? health::ok : health::error,
                     std::to_string(good) + " of " + counted(pairs, "pair") +
                         " (each in both directions) reach each other at random ports" +
                         share_text(facts.cards.size()),
                     ""});
  add_groups(made, names, found);
  judge_packet_sizes(facts, names, found);
  return found;
}

namespace {

// How many others have reached it, and how many have tried.
std::pair<std::size_t, std::size_t> reached(const cluster_facts& facts, std::uint32_t node,
                                            const std::string& address) {
  std::size_t good = 0;
  std::size_t tried = 0;
  for (const auto& seen : facts.seen) {
    if (!seen || !seen->peers.contains(node)) continue;
    for (const path_seen& path : seen->peers.at(node).paths) {
      if (path.address != address) continue;
      ++tried;
      good += path.what == path_answer::ok ? 1 : 0;
      break;  // its first port is enough
    }
  }
  return {good, tried};
}

}  // namespace

findings judge_nccl_interfaces(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  std::map<std::string, std::set<std::uint32_t>> wrong;  // by the end of the sentence
  std::map<std::string, std::set<std::uint32_t>> right;  // by interface
  std::set<std::string> better;
  for (std::uint32_t node = 0; node < facts.cards.size(); ++node) {
    const node_card& card = facts.cards[node];
    if (card.nccl_interface.empty() || facts.gone.contains(node)) continue;
    std::string main;
    bool is_reached = false;
    std::string address;
    for (const card_address& each : card.addresses) {
      if (each.address == card.address) main = each.interface;
      if (each.interface != card.nccl_interface) continue;
      if (address.empty()) address = each.address;
      const auto [good, tried] = reached(facts, node, each.address);
      is_reached = is_reached || good == tried;
    }
    if (address.empty() || !is_reached) {
      wrong[card.nccl_interface + (address.empty() ? "" : " (" + address + ")")].insert(node);
      better.insert(main);
    } else {
      right[card.nccl_interface].insert(node);
    }
  }
  findings found;
  for (const auto& [interface, nodes] : wrong)
    found.push_back({"NCCL interface", health::error,
                     "on " + list_of(nodes, names) + " NCCL takes " + interface +
                         ", at which the others do not reach it",
                     "export NCCL_SOCKET_IFNAME=" + *better.begin() +
                         ", or start the job with "
                         "--network " +
                         *better.begin()});
  for (const auto& [interface, nodes] : right)
    found.push_back({"NCCL interface", health::ok, interface + " on " + list_of(nodes, names), ""});
  return found;
}

}  // namespace ddprun::launcher::doctor
