#include "launcher/hosts/ssh/plan.hpp"

#include "launcher/cli/host_rows.hpp"
#include "launcher/cli/option_table.hpp"
#include "launcher/hosts/ssh/exported.hpp"
#include "launcher/hosts/ssh/start_rules.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/core/messages/settings_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

namespace ddprun::launcher::ssh {
namespace {

using given_options = std::vector<cli::given_option>;

bool is_host_option(std::string_view name) {
  return std::any_of(host_rows.begin(), host_rows.end(),
                     [&](const auto& row) { return row.spec.name == name; });
}

// The last option of that name. Null: it was not given.
const cli::given_option* find(const given_options& options, std::string_view name) {
  const auto found = std::find_if(options.rbegin(), options.rend(),
                                  [&](const auto& each) { return each.spec->name == name; });
  return found == options.rend() ? nullptr : &*found;
}

const cli::given_option* find_discovery(const given_options& options) {
  const auto* const found = find(options, "host-discovery");
  return found != nullptr ? found : find(options, "host-discovery-script");
}

// Refuses options that concern a single node, or a way to meet that the head chooses itself.
cli::checked refuse_one_nodes(const given_options& options, const std::string& hosts) {
  static constexpr std::array<std::string_view, 7> names = {
      "node-id", "node-rank", "local-addr", "master-addr", "standalone", "gpus", "embed-daemon"};
  for (const std::string_view name : names) {
    if (const auto* const given = find(options, name)) {
      return cli::wrong(given->given, "that is for one node, and " + hosts +
                                          " starts several from here; leave one of the two out");
    }
  }
  const auto* const backend = find(options, "rdzv-backend");
  if (backend != nullptr && backend->value == "static") {
    return cli::wrong(backend->given, "with " + hosts + " nodes meet at a daemon; leave it out");
  }
  return {};
}

// Whether an option is only for the head, or is put into each agent's line in another form.
bool is_left_out(std::string_view name) {
  static constexpr std::array<std::string_view, 7> replaced = {
      "nproc-per-node", "rdzv-endpoint", "rdzv-id", "log-format", "log-time", "color", "nnodes"};
  return is_host_option(name) ||
         std::find(replaced.begin(), replaced.end(), name) != replaced.end();
}

std::string written(const cli::given_option& option) {
  const std::string name = "--" + std::string(option.spec->name);
  return option.spec->kind == cli::option_kind::value ? name + "=" + option.value : name;
}

cli::usage_error both_name_hosts(const cli::given_option& one, const cli::given_option& other) {
  return {one.given + " and " + other.given + " both name hosts; leave one out"};
}

// `other` is another option that names hosts; null: there is none.
cli::checked read_discovery(head_plan& plan, const given_options& options,
                            const cli::given_option& script, const cli::given_option* other) {
  if (other != nullptr) return both_name_hosts(*other, script);
  for (const std::string_view name : {"include", "exclude", "num-proc"}) {
    if (const auto* const given = find(options, name)) {
      return cli::wrong(given->given, "the hosts of " + script.given +
                                          " come and go; have the script print those you want");
    }
  }
  const auto* const nodes = find(options, "nnodes");
  if (nodes == nullptr || nodes->value.empty()) {
    return cli::wrong(script.given, "say how many hosts the run may have: --nnodes MIN:MAX");
  }
  plan.discovery = script.value;
  plan.discovery_given = script.given;
  return {};
}

// horovodrun's and mpirun's -np: that many workers in all, in the order of the list. Hosts without
// workers take no part.
cli::checked take_workers(head_plan& plan, const given_options& options) {
  const auto* const given = find(options, "num-proc");
  if (given == nullptr) return {};
  if (const auto* const each = find(options, "nproc-per-node")) {
    return cli::usage_error{given->given + " and " + each->given +
                            " both say how many workers there are; leave one out"};
  }
  std::uint32_t all = 0;
  for (const host& one : plan.hosts)
    all += one.slots;
  const auto wanted = cli::read_count(given->given, given->value, "workers in all", 1, UINT32_MAX);
  if (!wanted) return wanted.error();
  if (*wanted > all) {
    return cli::wrong(given->given, "the list has " + counted(all, "worker") +
                                        "; give the hosts more, as in -H a:4,b:4");
  }
  std::uint32_t left = *wanted;
  for (host& one : plan.hosts) {
    one.slots = std::min(one.slots, left);
    if (one.gpus.size() > one.slots) one.gpus.resize(one.slots);
    left -= one.slots;
  }
  std::erase_if(plan.hosts, [](const host& one) { return one.slots == 0; });
  return {};
}

cli::checked read_hosts(head_plan& plan, const given_options& options,
                        const file_reader_function& read_file) {
  const auto* const list = find(options, "hosts");
  const auto* const file = find(options, "hostfile");
  if (list != nullptr && file != nullptr) return both_name_hosts(*list, *file);
  if (const auto* const script = find_discovery(options))
    return read_discovery(plan, options, *script, list != nullptr ? list : file);
  const auto read = [&]() -> cli::parsed<std::vector<host>> {
    if (list != nullptr) return read_host_list(list->given, list->value);
    const auto text = read_file(file->value);
    if (!text) return cli::wrong(file->given, text.error().text);
    return read_hostfile(file->value, *text);
  };
  if (cli::checked bad = cli::keep(plan.hosts, read())) return bad;
  for (const bool keeps : {true, false}) {
    const auto* const filter = find(options, keeps ? "include" : "exclude");
    if (filter == nullptr) continue;
    if (cli::checked bad = filter_hosts(plan.hosts, filter->given, filter->value, keeps))
      return bad;
  }
  return take_workers(plan, options);
}

// horovodrun's counts are workers, ddprun's are hosts.
cli::checked refuse_counts_of_workers(const given_options& options) {
  for (const std::string_view name : {"min-np", "max-np"}) {
    if (const auto* const given = find(options, name)) {
      return cli::wrong(given->given,
                        "a host comes and goes with all of its workers: write --nnodes MIN:MAX, "
                        "the number of hosts");
    }
  }
  return {};
}

cli::checked read_ssh(head_plan& plan, const given_options& options) {
  if (const auto* const port = find(options, "ssh-port")) {
    const auto number = cli::read_count(port->given, port->value, "port", 1, 65535);
    if (!number) return number.error();
    plan.ssh.port = std::to_string(*number);
  }
  if (const auto* const user = find(options, "ssh-user")) plan.ssh.user = user->value;
  if (const auto* const words = find(options, "ssh-args")) {
    if (cli::checked bad = cli::keep(plan.ssh.words, split_words(words->given, words->value)))
      return bad;
  }
  if (const auto* const path = find(options, "remote-ddprun")) {
    if (!path->value.starts_with('/')) {
      return cli::wrong(path->given, "write the whole path, from / on");
    }
    plan.remote_program = path->value;
  }
  if (const auto* const limit = find(options, "start-timeout")) {
    if (cli::checked bad =
            cli::keep(plan.start_timeout, cli::read_seconds(limit->given, limit->value, false)))
      return bad;
  }
  return {};
}

// Sets each host's number of workers: from the list, or --nproc-per-node for all.
cli::checked settle_workers(head_plan& plan, const given_options& options) {
  const auto* const all = find(options, "nproc-per-node");
  if (all == nullptr) return {};
  const auto has_own = std::find_if(plan.hosts.begin(), plan.hosts.end(),
                                    [](const host& each) { return each.has_number; });
  if (has_own != plan.hosts.end()) {
    return cli::wrong(all->given, "the list says " + counted(has_own->slots, "worker") + " of " +
                                      has_own->name + "; leave one of the two out");
  }
  plan.options.push_back(written(*all));
  plan.has_common_workers = true;
  return {};
}

// Checks the options of all agents here, so that errors quote the words that the user wrote.
cli::checked check_launch(head_plan& plan, const given_options& options,
                          const environment_map& environment) {
  std::vector<std::string> words = plan.options;
  words.insert(words.end(), plan.once.begin(), plan.once.end());
  const auto* const endpoint = find(options, "rdzv-endpoint");
  const auto* const nodes = find(options, "nnodes");
  const auto* const run_id = find(options, "rdzv-id");
  plan.has_endpoint = endpoint != nullptr && !endpoint->value.empty();
  plan.has_run_id = run_id != nullptr && !run_id->value.empty();
  const std::string count = std::to_string(plan.hosts.size());
  plan.options.push_back("--nnodes=" + (nodes == nullptr ? count : nodes->value));
  words.push_back(plan.options.back());
  words.push_back(plan.has_endpoint ? written(*endpoint) : "--rdzv-endpoint=localhost");
  if (plan.has_run_id) words.push_back(written(*run_id));
  for (const std::string_view name : {"log-format", "log-time", "color"}) {
    if (const auto* const own = find(options, name)) words.push_back(written(*own));
  }
  words.insert(words.end(), plan.script.begin(), plan.script.end());
  environment_map others = environment;
  for (const auto& [name, value] : plan.variables)
    others[name] = value;
  // PET_ variables are options as well. The agents get theirs in words.
  std::erase_if(others, [](const auto& each) { return each.first.starts_with("PET_"); });
  auto outcome = parse_options(words, others);
  if (const auto* const error = std::get_if<cli::usage_error>(&outcome)) return *error;
  plan.launch = std::get<launch_options>(std::move(outcome));
  const run_settings& settings = plan.launch.settings;
  const std::size_t most = settings.nodes_max + settings.spares_max;
  // Without a fixed list there is nothing to compare with: hosts come later.
  if (!plan.discovery.empty()) return {};
  if (plan.hosts.size() < settings.nodes_min || plan.hosts.size() > most) {
    return cli::wrong(
        nodes == nullptr ? "-H" : nodes->given,
        "the list has " + counted(plan.hosts.size(), "host") +
            (plan.hosts.size() > most ? ", which is too many; --spares N lets some wait" : ""));
  }
  return {};
}

cli::checked fill(head_plan& plan, const cli::split_line& line, const std::string& hosts,
                  const environment_map& environment, const file_reader_function& read_file) {
  if (cli::checked bad = refuse_one_nodes(line.options, hosts)) return bad;
  if (cli::checked bad = refuse_counts_of_workers(line.options)) return bad;
  if (cli::checked bad = read_hosts(plan, line.options, read_file)) return bad;
  if (cli::checked bad = read_ssh(plan, line.options)) return bad;
  std::vector<std::string> asked;
  for (const cli::given_option& each : line.options) {
    if (each.spec->name == "export") asked.push_back(each.value);
    if (is_left_out(each.spec->name)) continue;
    const bool is_once = each.spec->name == "report" || each.spec->name == "on-event";
    (is_once ? plan.once : plan.options).push_back(written(each));
  }
  if (cli::checked bad = cli::keep(plan.variables, exported_variables(environment, asked)))
    return bad;
  if (cli::checked bad = settle_workers(plan, line.options)) return bad;
  if (find(line.options, "drain-exit-code") == nullptr)
    plan.options.push_back("--drain-exit-code=" + std::to_string(drained_exit_code));
  if (!line.program.empty()) plan.script = {"--", line.program};
  plan.script.insert(plan.script.end(), line.arguments.begin(), line.arguments.end());
  return check_launch(plan, line.options, environment);
}

}  // namespace

cli::parsed<std::optional<head_plan>> plan_head(const std::vector<std::string>& words,
                                                const environment_map& environment,
                                                const file_reader_function& read_file) {
  const auto line = cli::split_command_line(launcher_command(), words, environment);
  if (!line) return std::optional<head_plan>();  // whoever parses the line reports its errors
  const auto* const list = find(line->options, "hosts");
  const auto* const file = find(line->options, "hostfile");
  const auto* const known = list != nullptr ? list : file;
  const auto* const hosts = known != nullptr ? known : find_discovery(line->options);
  if (hosts == nullptr) {
    const auto lost =
        std::find_if(line->options.begin(), line->options.end(),
                     [](const auto& each) { return is_host_option(each.spec->name); });
    if (lost == line->options.end()) return std::optional<head_plan>();
    return cli::wrong(lost->given, "that is for several hosts; add -H HOST,... or --hostfile FILE");
  }
  head_plan plan;
  if (const cli::checked bad = fill(plan, *line, hosts->given, environment, read_file)) return *bad;
  return std::optional<head_plan>(std::move(plan));
}

std::vector<std::string> agent_words(const head_plan& plan, std::size_t host,
                                     const agent_place& place) {
  const ssh::host& one = plan.hosts[host];
  std::vector<std::string> words = plan.options;
  if (place.reports) words.insert(words.end(), plan.once.begin(), plan.once.end());
  if (!plan.has_common_workers || one.has_number)
    words.push_back("--nproc-per-node=" + std::to_string(one.slots));
  if (!one.gpus.empty()) {
    std::string list;
    for (const std::uint32_t gpu : one.gpus)
      list += (list.empty() ? "" : ",") + std::to_string(gpu);
    words.push_back("--gpus=" + list);
  }
  words.push_back("--rdzv-endpoint=" + place.endpoint);
  words.push_back("--rdzv-id=" + place.run_id);
  if (place.is_at_head) words.push_back("--embed-daemon=never");
  words.push_back("--node-id=" + one.name);
  // With discovery the numbers follow the order of arrival and say nothing about rank.
  if (plan.discovery.empty()) words.push_back("--node-rank=" + std::to_string(host));
  // The head waits this long for agents to end, so an agent must not take another value from its
  // environment.
  words.push_back("--shutdown-timeout=" + seconds_text(plan.launch.settings.timing.drain_grace));
  words.push_back("--log-format=json");
  words.push_back(place.has_color ? "--color=always" : "--color=never");
  words.insert(words.end(), plan.script.begin(), plan.script.end());
  return words;
}

// ssh uses the first value of an option, so the user's come before ours. BatchMode: ssh must not
// ask for a password. It changes ServerAliveInterval to 300 s on Debian, which would notice a cut
// connection after minutes, so that is set as well. ControlMaster=no: an existing master may be
// used, but this ssh must not become one, because it would have to stay for others.
std::vector<std::string> ssh_words(const head_plan& plan, std::size_t host,
                                   const std::string& command, long connect_seconds) {
  const ssh::host& one = plan.hosts[host];
  std::vector<std::string> words = {"ssh"};
  words.insert(words.end(), plan.ssh.words.begin(), plan.ssh.words.end());
  for (const std::string& option :
       {std::string("BatchMode=yes"), std::string("ServerAliveInterval=5"),
        std::string("ServerAliveCountMax=3"), std::string("RequestTTY=no"),
        std::string("RemoteCommand=none"), std::string("ControlMaster=no"),
        "ConnectTimeout=" + std::to_string(std::max(1L, connect_seconds))}) {
    words.push_back("-o");
    words.push_back(option);
  }
  words.insert(words.end(), {"-T", "-x"});
  if (!plan.ssh.port.empty()) words.insert(words.end(), {"-p", plan.ssh.port});
  const std::string& user = one.user.empty() ? plan.ssh.user : one.user;
  if (!user.empty()) words.insert(words.end(), {"-l", user});
  words.insert(words.end(), {"--", one.name, command});
  return words;
}

}  // namespace ddprun::launcher::ssh
