#include "launcher/hosts/doctor/network_facts.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/hosts/doctor/look_up.hpp"
#include "launcher/network/gloo_interface.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/dialer.hpp"
#include "rendezvous/net/host_name.hpp"

#include <boost/asio/io_context.hpp>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <set>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> interfaces_of(const network_facts& facts) {
  std::vector<std::string> names;
  for (const interface_address& each : facts.addresses) {
    if (std::find(names.begin(), names.end(), each.interface) == names.end())
      names.push_back(each.interface);
  }
  return names;
}

constexpr std::size_t strange_names_max = 4;

finding judge_name(const network_facts& facts) {
  finding found{"host name", health::ok, facts.host_name, {}};
  if (facts.is_name_late) {
    found.state = health::warning;
    found.seen += fmt::format(" has no answer from the name service after {} s", patience.count());
    found.advice =
        "each worker looks names up when it starts: repair the name service, or put the "
        "nodes into /etc/hosts";
  } else if (!facts.name_problem.empty()) {
    found.state = health::warning;
    found.seen += " " + facts.name_problem;
    found.advice =
        "other nodes do not find this one by its name: ddprun tells Gloo which "
        "interface to use; for other programs, put the nodes into DNS or /etc/hosts";
  } else {
    found.seen += " is this host, and others find it by that name";
  }
  return found;
}

finding judge_interfaces(const network_facts& facts) {
  std::vector<std::string> shown;
  std::set<std::string> with_address;
  for (const interface_address& each : facts.addresses) {
    if (!is_for_others(each.value)) continue;
    const auto size = facts.packet_sizes.find(each.interface);
    shown.push_back(
        each.interface + " " + net::address_text(each.value) +
        (size == facts.packet_sizes.end() ? "" : fmt::format(" (MTU {})", size->second)));
    with_address.insert(each.interface);
  }
  if (shown.empty())
    return {"interfaces", health::warning, "none but loopback has an address",
            "jobs of one node run; for more nodes, start the container with a network"};
  return {
      "interfaces", health::ok, fmt::format("{}", fmt::join(shown, ", ")),
      with_address.size() > 1 ? "where nodes meet by another one than the first: --network" : ""};
}

// NCCL's form: "eth,ib" are prefixes, "=eth0" whole names, "^docker" exclusions.
bool nccl_finds(const std::string& wanted, const std::vector<std::string>& interfaces) {
  const bool is_whole = wanted.starts_with('=');
  for (const std::string_view part : split(std::string_view(wanted).substr(is_whole), ',')) {
    const std::string_view name = part.substr(0, part.find(':'));
    if (name.empty()) continue;
    for (const std::string& each : interfaces) {
      if (is_whole ? each == name : each.starts_with(name)) return true;
    }
  }
  return false;
}

bool gloo_finds(const std::string& wanted, const std::vector<std::string>& interfaces) {
  const std::vector<std::string_view> names = split(wanted, ',');
  return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
    return std::find(interfaces.begin(), interfaces.end(), name) != interfaces.end();
  });
}

void judge_wishes(const network_facts& facts, const environment_map& environment, findings& found) {
  const std::vector<std::string> interfaces = interfaces_of(facts);
  const struct {
    const char* variable;
    bool (*finds)(const std::string&, const std::vector<std::string>&);
  } wishes[] = {{"NCCL_SOCKET_IFNAME", nccl_finds}, {"GLOO_SOCKET_IFNAME", gloo_finds}};
  for (const auto& wish : wishes) {
    const std::string wanted = variable_or_empty(environment, wish.variable);
    if (wanted.empty() || wanted.starts_with('^')) continue;
    const bool is_there = wish.finds(wanted, interfaces);
    found.push_back(
        {wish.variable, is_there ? health::ok : health::error,
         is_there ? wanted : wanted + " is not an interface with an address on this host",
         is_there
             ? ""
             : fmt::format("unset it, or name one of these: {}", fmt::join(interfaces, ", "))});
  }
}

void judge_strange_names(const network_facts& facts, findings& found) {
  for (const auto& [address, name] : facts.strange_names)
    found.push_back(
        {"host name", health::warning,
         address + (name.empty() ? " has no answer from the name service"
                                 : " of this host leads back to " + name),
         "ssh logins get slow, and Kerberos and host keys see another host: correct the "
         "reverse zone, or /etc/hosts"});
}

void judge_ports(const network_facts& facts, std::uint16_t port, findings& found) {
  if (facts.first_handed_out == 0) return;
  finding judged{
      "ports",
      health::ok,
      fmt::format("the kernel hands out {} to {}", facts.first_handed_out, facts.last_handed_out),
      {}};
  if (port >= facts.first_handed_out && port <= facts.last_handed_out) {
    judged.state = health::warning;
    judged.seen += fmt::format(", and the endpoint's {} is among them", port);
    judged.advice = fmt::format(
        "any program's connection may hold it when a job starts: choose a port below {}, or add "
        "it to net.ipv4.ip_local_reserved_ports",
        facts.first_handed_out);
  }
  found.push_back(judged);
}

}  // namespace

network_facts read_network(const fs::path& root) {
  network_facts facts;
  facts.host_name = net::full_host_name();
  const look_up_answer answer = look_up(facts.host_name, 0, patience);
  facts.is_name_late = answer.is_late;
  facts.name_problem = name_problem(answer.found);
  facts.addresses = own_addresses_by_interface();
  for (const interface_address& each : facts.addresses) {
    if (!is_for_others(each.value) || facts.strange_names.size() == strange_names_max) continue;
    const std::string address = net::address_text(each.value);
    const name_of_address said = look_up_name_of(address, short_patience);
    if (said.is_late || (!said.name.empty() && !is_one_host_name(said.name, facts.host_name)))
      facts.strange_names[address] = said.name;
  }
  for (const std::string& name : interfaces_of(facts)) {
    if (const auto size = number_in(root / "sys/class/net" / name / "mtu"))
      facts.packet_sizes[name] = *size;
  }
  std::istringstream range(first_line(root / "proc/sys/net/ipv4/ip_local_port_range").value_or(""));
  if (!(range >> facts.first_handed_out >> facts.last_handed_out)) facts.first_handed_out = 0;
  return facts;
}

findings judge_network(const network_facts& facts, const environment_map& environment,
                       std::uint16_t port) {
  findings found = {judge_name(facts), judge_interfaces(facts)};
  judge_strange_names(facts, found);
  judge_wishes(facts, environment, found);
  judge_ports(facts, port, found);
  return found;
}

endpoint_facts read_endpoint(const fs::path& root, const cli::endpoint_address& endpoint) {
  endpoint_facts facts;
  facts.endpoint = endpoint;
  const look_up_answer answer = look_up(endpoint.host, endpoint.port, patience);
  if (answer.is_late)
    facts.look_up_problem =
        fmt::format("no answer from the name service in {} s", patience.count());
  else if (answer.error)
    facts.look_up_problem = answer.error.message();
  if (!facts.look_up_problem.empty()) return facts;
  for (const net::tcp::endpoint& each : answer.found) {
    facts.addresses.push_back(net::address_text(each.address()));
    facts.is_here = facts.is_here || is_own_address(each.address());
    if (!facts.own_address.empty()) continue;
    if (const auto own = own_address_towards(each.address())) {
      facts.own_address = net::address_text(*own);
      facts.own_interface = interface_with(*own);
    }
  }
  boost::asio::io_context loop;
  net::dialer dialer(loop.get_executor());
  facts.dial_problem = "no answer";
  dialer.start(endpoint.host, endpoint.port, {}, patience, [&](const net::dial_result& result) {
    facts.dial_problem = result.socket ? "" : result.text;
    loop.stop();
  });
  loop.run_for(patience + std::chrono::seconds(1));
  if (facts.is_here && facts.dial_problem.empty())
    facts.holder = find_port_holder(root, endpoint.port);
  return facts;
}

namespace {

// A service manager may hold the port for the daemon, or a container engine for one inside.
void judge_holder(const endpoint_facts& facts, finding& found) {
  if (!facts.holder) {
    found.seen += " is this node, and a program listens there";
    return;
  }
  found.seen += fmt::format(" is this node, and {} (process {}) listens there",
                            facts.holder->program, facts.holder->pid);
  if (is_own_program(*facts.holder)) return;
  found.state = health::warning;
  found.advice =
      "unless that leads to a rendezvous daemon, nodes cannot meet there: end it, or choose "
      "another port";
}

}  // namespace

finding judge_endpoint(const endpoint_facts& facts) {
  const std::string name = net::endpoint_text(facts.endpoint.host, facts.endpoint.port);
  finding found{"endpoint", health::ok, name, {}};
  if (!facts.look_up_problem.empty()) {
    found.state = health::error;
    found.seen = facts.endpoint.host + ": " + facts.look_up_problem;
    found.advice = "use a name that every node knows, or an address";
    return found;
  }
  if (facts.dial_problem.empty()) {
    if (facts.is_here) {
      judge_holder(facts, found);
    } else {
      found.seen += fmt::format(" answers; this node reaches it from {} ({})", facts.own_address,
                                facts.own_interface);
    }
    return found;
  }
  if (facts.is_here) {
    found.seen += " is this node; ddprun starts the daemon here";
    return found;
  }
  found.state = facts.own_address.empty() ? health::error : health::warning;
  found.seen = facts.dial_problem;
  found.advice =
      facts.own_address.empty()
          ? "there is no route to it from here: which network do the nodes share?"
          : "refused is normal until the job has been started there; otherwise look for a firewall "
            "between the nodes: all TCP ports among them must be open, for NCCL and Gloo, too";
  return found;
}

}  // namespace ddprun::launcher::doctor
