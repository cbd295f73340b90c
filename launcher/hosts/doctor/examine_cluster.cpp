#include "launcher/hosts/doctor/examine_cluster.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/random_value.hpp"
#include "launcher/hosts/doctor/cluster_json.hpp"
#include "launcher/hosts/doctor/examine_pairs.hpp"
#include "launcher/hosts/doctor/judge_cluster.hpp"
#include "launcher/hosts/doctor/meeting_daemon.hpp"
#include "launcher/hosts/doctor/nccl_choice.hpp"
#include "launcher/hosts/doctor/probe_server.hpp"
#include "launcher/hosts/doctor/shared_folder.hpp"
#include "launcher/nccl/nccl_library.hpp"
#include "launcher/network/network_choice.hpp"
#include "launcher/network/own_addresses.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/net/resolve.hpp"
#include "worker/nccl_version.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::size_t ports_probed = 3;  // a firewall with few open ranges rarely passes all
constexpr std::chrono::minutes examination_limit{3};

std::string draw_token() {
  const auto numbers = random_value<std::array<std::uint64_t, 2>>();
  return fmt::format("{:016x}{:016x}", numbers[0], numbers[1]);
}

// Each network namespace is a host of its own for these checks.
std::string own_host() {
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return first_line("/proc/sys/kernel/random/boot_id").value_or("") + " " + network.string();
}

// The address by which others would reach this node in a job.
std::string own_address(const cluster_wishes& wishes, const own_facts& own, std::string& problem) {
  const std::vector<interface_address>& all = own.network.addresses;
  const auto endpoint = net::numeric_address(wishes.meeting.endpoint.host);
  if (!wishes.networks.empty()) {
    network_wish wish;
    wish.networks = wishes.networks;
    wish.likes_ipv6 = endpoint && endpoint->is_v6();
    const auto choice = choose_network(wish, all);
    if (choice) return choice->address;
    problem = choice.error().text;
    return {};
  }
  if (!own.endpoint.is_here) return own.endpoint.own_address;
  for (const std::string& each : own.endpoint.addresses) {
    const auto address = net::numeric_address(each);
    if (address && is_for_others(*address)) return each;
  }
  // For "localhost": others have typed another name of this host, so take the address of the
  // default route.
  const auto outside = boost::asio::ip::make_address("192.0.2.1");
  if (const auto towards = own_address_towards(outside)) return net::address_text(*towards);
  for (const interface_address& each : all) {
    if (is_for_others(each.value)) return net::address_text(each.value);
  }
  return "127.0.0.1";
}

std::string nccl_version(const python_facts& python) {
  if (python.nccl.empty()) return {};
  std::string problem;
  const auto library = nccl_library::open(python.nccl, problem);
  return library ? worker::nccl_version_text(library->version()) : "unknown";
}

node_card card_of(const cluster_wishes& wishes, const own_facts& own,
                  const environment_map& environment, std::string& problem) {
  node_card card;
  card.token = draw_token();
  card.name = own.network.host_name;
  card.nodes = wishes.meeting.nodes;
  card.host = own_host();
  card.address = own_address(wishes, own, problem);
  for (const interface_address& each : own.network.addresses) {
    const std::string address = net::address_text(each.value);
    if (!is_for_others(each.value) && address != card.address) continue;
    const auto size = own.network.packet_sizes.find(each.interface);
    const card_address one{each.interface, address,
                           size == own.network.packet_sizes.end() ? 0 : size->second};
    card.addresses.insert(address == card.address ? card.addresses.begin() : card.addresses.end(),
                          one);
  }
  card.versions = {{"ddprun", std::string(version)},
                   {"PyTorch", own.python.torch},
                   {"NCCL", nccl_version(own.python)}};
  const std::string wanted = variable_or_empty(environment, "NCCL_SOCKET_IFNAME");
  if (!own.python.nccl.empty() || !wanted.empty()) {
    if (const auto choice = nccl_choice(own.network.addresses, wanted))
      card.nccl_interface = choice->interface;
  }
  for (const finding& each : own.found) {
    // What the other nodes find about these two is more useful.
    if (each.check == "endpoint" || each.check == "host name") continue;
    if (each.state != health::ok) card.own.push_back(each);
  }
  card.folder = wishes.folder;
  card.wants_bandwidth = wishes.wants_bandwidth;
  return card;
}

cluster_report alone(const std::string& problem, const std::string& advice) {
  cluster_report report;
  report.found = {{"nodes", health::error, problem, advice}};
  return report;
}

// One node may lack an option that another one was given.
std::string folder_of(const std::vector<node_card>& cards, const std::string& own) {
  if (!own.empty()) return own;
  for (const node_card& card : cards) {
    if (!card.folder.empty()) return card.folder;
  }
  return {};
}

bool any_wants_bandwidth(const std::vector<node_card>& cards) {
  return std::any_of(cards.begin(), cards.end(),
                     [](const node_card& card) { return card.wants_bandwidth; });
}

cluster_facts examine_each_other(meeting& others, const cluster_wishes& wishes) {
  cluster_facts facts;
  facts.wanted = wishes.meeting.nodes;
  facts.cards = others.cards();
  node_seen mine;
  mine.peers = examine_peers(facts.cards, others.own_index());
  others.wait_for_others("pairs", examination_limit);
  facts.folder = folder_of(facts.cards, wishes.folder);
  if (!facts.folder.empty()) mine.folder = examine_folder(facts.folder, others);
  if (any_wants_bandwidth(facts.cards)) measure_speeds(others, mine.peers);
  const auto words = others.exchange("seen", encode(mine), examination_limit);
  for (const auto& word : words)
    facts.seen.push_back(word ? decode_seen(*word, facts.cards.size()) : std::nullopt);
  facts.gone = others.gone();
  return facts;
}

}  // namespace

cluster_report examine_cluster(const cluster_wishes& wishes, const own_facts& own,
                               const environment_map& environment) {
  net::raise_descriptor_limit();
  std::string problem;
  node_card mine = card_of(wishes, own, environment, problem);
  if (!problem.empty()) return alone(problem, "");
  probe_server server(mine.token);
  if (!server.start(ports_probed, problem)) return alone(problem, "");
  mine.ports = server.ports();
  meeting_daemon daemon;
  std::string not_opened;
  // If another program listens there, the other nodes connect to that one too.
  if (own.endpoint.is_here || is_own_name(wishes.meeting.endpoint.host))
    daemon.open(wishes.meeting.endpoint, not_opened);
  meeting others(wishes.meeting);
  if (!others.join(mine, problem)) {
    if (daemon.is_open()) {
      if (wishes.say) wishes.say(problem + "; this node's daemon stays until the others are done");
      others.outlast_others();
    }
    return alone(problem,
                 "the others are not examined: was the same command started on each node, and "
                 "can it reach the endpoint?");
  }
  cluster_report report;
  report.facts = examine_each_other(others, wishes);
  report.found = judge_cluster(report.facts);
  if (!others.problem().empty())
    report.found.insert(
        report.found.begin(),
        {"nodes", health::error, "the daemon went: " + others.problem(),
         "the other nodes' findings are missing: see what happened at the endpoint's "
         "host, and start all again"});
  others.leave();
  return report;
}

}  // namespace ddprun::launcher::doctor
