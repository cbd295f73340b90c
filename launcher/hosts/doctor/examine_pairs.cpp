#include "launcher/hosts/doctor/examine_pairs.hpp"

#include "launcher/hosts/doctor/look_up.hpp"
#include "launcher/hosts/doctor/network_facts.hpp"
#include "launcher/hosts/doctor/pair_schedule.hpp"
#include "launcher/hosts/doctor/probe.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace ddprun::launcher::doctor {
namespace {

using std::chrono::steady_clock;

// Runs all tasks in this order, several at a time.
void do_all(const std::vector<std::function<void()>>& tasks) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t at = next++; at < tasks.size(); at = next++)
      tasks[at]();
  };
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < std::min(tasks.size(), probe_threads_max))
      helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // With fewer threads it only takes longer.
  }
  work();
  for (std::thread& each : helpers)
    each.join();
}

void look_up_name(const node_card& card, peer_seen& peer) {
  const time_point begin = steady_clock::now();
  const look_up_answer said = look_up(card.name, 0, patience);
  peer.name_time = to_micros(steady_clock::now() - begin);
  if (said.is_late) {
    peer.name = name_answer::late;
  } else if (said.error || said.found.empty()) {
    peer.name = name_answer::unknown;
  } else {
    peer.name = name_answer::other;
    for (const net::tcp::endpoint& each : said.found) {
      const std::string address = net::address_text(each.address());
      if (peer.name_text.find(address) == std::string::npos)
        peer.name_text += (peer.name_text.empty() ? "" : ", ") + address;
      for (const card_address& own : card.addresses) {
        if (own.address == address) peer.name = name_answer::found;
      }
    }
  }
}

void look_up_address(const node_card& card, peer_seen& peer) {
  const name_of_address said = look_up_name_of(card.address, patience);
  peer.named_text = said.name;
  peer.named = said.is_late                             ? name_answer::late
               : said.name.empty()                      ? name_answer::unknown
               : is_one_host_name(said.name, card.name) ? name_answer::found
                                                        : name_answer::other;
}

// The targets: the node's random ports at its main address, and one port at its other addresses.
std::vector<probe_target> targets_at(const node_card& card) {
  std::vector<probe_target> targets;
  for (const std::uint16_t port : card.ports)
    targets.push_back({card.address, port, card.token, targets.empty()});
  for (const card_address& each : card.addresses) {
    if (targets.size() >= card.ports.size() + addresses_probed_max - 1) break;
    if (each.address != card.address && !card.ports.empty())
      targets.push_back({each.address, card.ports.front(), card.token, false});
  }
  return targets;
}

}  // namespace

std::map<std::uint32_t, peer_seen> examine_peers(const std::vector<node_card>& cards,
                                                 std::uint32_t own) {
  std::map<std::uint32_t, peer_seen> peers;
  std::mutex guard;  // guards `peers`
  std::vector<std::function<void()>> tasks;
  const auto others = order_of_others(own, static_cast<std::uint32_t>(cards.size()));
  for (const std::uint32_t index : others) {
    peer_seen& peer = peers[index];
    const std::vector<probe_target> targets = targets_at(cards[index]);
    peer.paths.resize(targets.size());
    for (std::size_t at = 0; at < targets.size(); ++at) {
      tasks.emplace_back([&guard, &peer = peer, at, target = targets[at]] {
        const probe_result result = probe(target);
        const std::lock_guard hold(guard);
        peer.paths[at] = result.path;
        if (!target.is_main) return;
        peer.round_trip = result.round_trip;
        peer.clock_ahead = result.clock_ahead;
      });
    }
  }
  for (const std::uint32_t index : others) {
    peer_seen& peer = peers[index];
    tasks.emplace_back([&guard, &peer = peer, &card = cards[index]] {
      peer_seen named;
      look_up_name(card, named);
      look_up_address(card, named);
      const std::lock_guard hold(guard);
      peer.name = named.name;
      peer.name_text = named.name_text;
      peer.name_time = named.name_time;
      peer.named = named.named;
      peer.named_text = named.named_text;
    });
  }
  do_all(tasks);
  return peers;
}

void measure_speeds(meeting& others, std::map<std::uint32_t, peer_seen>& peers) {
  const std::vector<node_card>& cards = others.cards();
  const auto nodes = static_cast<std::uint32_t>(cards.size());
  const std::uint32_t own = others.own_index();
  const std::uint32_t steps = tournament_steps(nodes);
  const duration turn =
      std::min<duration>(std::chrono::seconds(1), bandwidth_limit / std::max(1U, 2 * steps));
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto partner = tournament_partner(own, step, nodes);
    for (const bool is_lower_first : {true, false}) {
      if (partner && (own < *partner) == is_lower_first && !others.gone().contains(*partner) &&
          !cards[*partner].ports.empty()) {
        const node_card& to = cards[*partner];
        peers[*partner].mib_per_second =
            measure_speed({to.address, to.ports.front(), to.token, false}, turn);
      }
      others.wait_for_others("speed-" + std::to_string(step) + (is_lower_first ? "a" : "b"),
                             turn + std::chrono::seconds(20));
    }
  }
}

}  // namespace ddprun::launcher::doctor
