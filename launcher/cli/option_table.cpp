#include "launcher/cli/option_table.hpp"

#include "launcher/cli/completion.hpp"
#include "launcher/cli/failure_rows.hpp"
#include "launcher/cli/health_rows.hpp"
#include "launcher/cli/help.hpp"
#include "launcher/cli/host_rows.hpp"
#include "launcher/cli/node_rows.hpp"
#include "launcher/cli/output_rows.hpp"
#include "launcher/cli/pod_rows.hpp"
#include "launcher/cli/rendezvous_conf.hpp"
#include "launcher/cli/setting_options.hpp"
#include "launcher/cli/shutdown_timeout.hpp"
#include "launcher/cli/torchrun_options.hpp"
#include "launcher/cli/vault_rows.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace ddprun::launcher {
namespace {

cli::checked apply_endpoint(options_draft& draft, const cli::given_option& option) {
  if (!option.value.empty()) {
    return cli::keep(draft.options.endpoint, cli::read_endpoint(option.given, option.value));
  }
  draft.given.erase(option.spec->name);  // the same as torchrun's default
  return {};
}

// An unset shell variable leaves an empty value, which torchrun takes as not given.
cli::checked apply_rdzv_id(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return {};
  return cli::keep(draft.options.run_id, cli::read_name(option.given, option.value, "run id"));
}

cli::checked apply_backend(options_draft& draft, const cli::given_option& option) {
  draft.backend = option.value;
  if (option.value == "c10d" || option.value == "static") return {};
  if (option.value == "etcd" || option.value == "etcd-v2") {
    return cli::wrong(option,
                      "etcd is not supported; use --rdzv-backend=c10d with --rdzv-endpoint of "
                      "a ddprun-rendezvous daemon, or of the first node");
  }
  return cli::wrong(option, "unknown rendezvous backend; use c10d or static");
}

cli::checked apply_conf(options_draft& draft, const cli::given_option& option) {
  auto conf = read_rendezvous_conf(option.given, option.value);
  if (!conf) return conf.error();
  draft.options.settings.timing = conf->timing;
  draft.is_host = conf->is_host;
  draft.typed_timers = std::move(conf->typed);
  std::vector<std::string>& notes = draft.options.notes;
  notes.insert(notes.end(), conf->notes.begin(), conf->notes.end());
  return {};
}

// The meaning depends on other options.
cli::checked remember(options_draft&, const cli::given_option&) {
  return {};
}

cli::checked apply_embed(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<embed_policy> words[] = {{"auto", embed_policy::automatic},
                                                            {"always", embed_policy::always},
                                                            {"never", embed_policy::never}};
  return cli::keep(draft.options.embed,
                   cli::read_word(option.given, option.value, words, "auto, always or never"));
}

cli::checked apply_node_id(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.node_id, cli::read_name(option.given, option.value, "node id"));
}

cli::checked apply_node_rank(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.node_rank, cli::read_count(option.given, option.value, "this node",
                                                            0, nodes_per_run_max - 1));
}

cli::checked apply_local_addr(options_draft& draft, const cli::given_option& option) {
  if (!option.value.empty()) {
    return cli::keep(draft.options.local_address,
                     cli::read_name(option.given, option.value, "address"));
  }
  draft.given.erase(option.spec->name);  // the same as torchrun's default
  return {};
}

cli::checked apply_master_addr(options_draft& draft, const cli::given_option& option) {
  if (!option.value.empty()) {
    return cli::keep(draft.master_address, cli::read_name(option.given, option.value, "address"));
  }
  draft.master_address.clear();
  draft.empty_master_address = std::exchange(draft.given[option.spec->name], {});
  return {};
}

cli::checked apply_master_port(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.master_port,
                   cli::read_port(option.given, option.value, "0 for a new one"));
}

cli::checked apply_shutdown_timeout(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.shutdown_timeout, read_shutdown_timeout(option.given, option.value));
}

cli::checked apply_failure_grace(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.failure_grace, cli::read_seconds(option.given, option.value, true));
}

cli::checked apply_restart_window(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.restart_window, cli::read_seconds(option.given, option.value, true));
}

// torchrun polls its workers in this interval; ddprun is notified by the kernel.
cli::checked check_monitor_interval(options_draft&, const cli::given_option& option) {
  const auto seconds = cli::read_seconds(option.given, option.value, true);
  return seconds ? cli::checked() : seconds.error();
}

// Handles options of torchrun's without a meaning here: a note if the value asks for something.
cli::checked note_ignored(options_draft& draft, const cli::given_option& option,
                          std::string_view harmless, std::string_view why) {
  if (option.value == harmless) return {};
  draft.options.notes.push_back(option.given + " is ignored: " + std::string(why));
  return {};
}

cli::checked note_start_method(options_draft& draft, const cli::given_option& option) {
  if (option.value != "spawn" && option.value != "fork" && option.value != "forkserver") {
    return cli::wrong(option, "write spawn, fork or forkserver");
  }
  return note_ignored(draft, option, "spawn", "ddprun starts programs, not Python functions");
}

cli::checked note_event_log_handler(options_draft& draft, const cli::given_option& option) {
  return note_ignored(draft, option, "null", "ddprun has no handlers of Python events");
}

cli::checked note_signals_to_handle(options_draft& draft, const cli::given_option& option) {
  return note_ignored(draft, option, "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
                      "SIGTERM, SIGINT, SIGHUP and SIGQUIT end this node's part in order, SIGUSR1 "
                      "and SIGUSR2 go on to the workers");
}

cli::checked note_exit_barrier(options_draft& draft, const cli::given_option& option) {
  return note_ignored(draft, option, "",
                      "ddprun waits for the other nodes without a limit, and says for whom");
}

cli::checked apply_virtual_local_rank(options_draft& draft, const cli::given_option&) {
  draft.options.virtual_local_rank = true;
  return {};
}

cli::checked apply_module(options_draft& draft, const cli::given_option&) {
  draft.options.module = true;
  return {};
}

cli::checked apply_no_python(options_draft& draft, const cli::given_option&) {
  draft.options.no_python = true;
  return {};
}

cli::checked apply_run_path(options_draft& draft, const cli::given_option&) {
  draft.options.run_path = true;
  return {};
}

cli::checked apply_pass_local_rank(options_draft& draft, const cli::given_option&) {
  draft.options.pass_local_rank = true;
  return {};
}

// torch.distributed.launch passes this to scripts; here it was typed before one by mistake.
cli::checked refuse_local_rank(options_draft&, const cli::given_option& option) {
  return cli::wrong(option,
                    "that is an argument of scripts; ddprun --pass-local-rank gives each worker "
                    "its own, and LOCAL_RANK is in the environment");
}

cli::checked print_completion(options_draft& draft, const cli::given_option& option) {
  if (option.value != "bash" && option.value != "zsh") {
    return cli::wrong(option, "write bash or zsh");
  }
  const cli::command& command = launcher_command();
  draft.answer = option.value == "bash" ? bash_completion(command) : zsh_completion(command);
  return {};
}

cli::checked apply_placeholders(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<placeholder_mode> words[] = {
      {"on", placeholder_mode::on}, {"torchrun", placeholder_mode::torchrun}};
  return cli::keep(draft.options.placeholders,
                   cli::read_word(option.given, option.value, words,
                                  "on ({rank} and its like are replaced) or torchrun (only "
                                  "${local_rank})"));
}

cli::checked apply_nccl_ids(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<nccl_id_mode> words[] = {
      {"auto", nccl_id_mode::automatic}, {"on", nccl_id_mode::on}, {"off", nccl_id_mode::off}};
  return cli::keep(draft.options.nccl_ids,
                   cli::read_word(option.given, option.value, words, "auto, on or off"));
}

// TorchX passes an empty role for jobs without roles, and torchrun's workers get it unchanged.
cli::checked apply_role(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) {
    draft.options.role.clear();
    return {};
  }
  return cli::keep(draft.options.role, cli::read_name(option.given, option.value, "role"));
}

cli::checked apply_on_event(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "write a command for /bin/sh -c");
  draft.options.on_event = option.value;
  return {};
}

cli::checked show_help(options_draft& draft, const cli::given_option&) {
  draft.answer = help_text();
  return {};
}

cli::checked show_version(options_draft& draft, const cli::given_option&) {
  draft.answer = version_text();
  return {};
}

constexpr cli::option_owner torchrun = cli::option_owner::torchrun;
constexpr cli::option_owner ours = cli::option_owner::ddprun;
constexpr cli::option_kind value = cli::option_kind::value;
constexpr cli::option_kind flag = cli::option_kind::flag;
constexpr cli::option_kind question = cli::option_kind::question;

using row = cli::option<options_draft>;

constexpr std::array own_options = {
    row{{"rdzv-endpoint", "HOST[:PORT]", "Rendezvous",
         "where the rendezvous daemon is or will be; the same on all nodes;\n"
         "IPv6 as [ADDRESS]:PORT (port {})",
         torchrun, value, 0, [] { return std::to_string(cli::default_endpoint_port); }},
        apply_endpoint},
    row{{"rdzv-id", "ID", "Rendezvous", "name of the run; the same on all nodes (none)", torchrun},
        apply_rdzv_id},
    row{{"rdzv-backend", "c10d | static", "Rendezvous",
         "c10d: nodes meet at --rdzv-endpoint; static: at --master-addr;\n"
         "--master-addr or --node-rank without an endpoint imply static",
         torchrun},
        apply_backend},
    row{{"rdzv-conf", "KEY=VALUE,...", "Rendezvous",
         "the timers below; and torchrun's is_host, keep_alive_interval,\n"
         "keep_alive_max_attempt",
         torchrun},
        apply_conf},
    row{{"standalone", "", "Rendezvous",
         "one node, with a daemon of its own; the default for one node\n"
         "without an endpoint",
         torchrun, flag},
        remember},
    row{{"embed-daemon", "auto | always | never", "Rendezvous",
         "run the daemon in this process; auto: if the endpoint is this host\n"
         "and nothing listens there yet (auto)"},
        apply_embed},
    row{{"node-id", "NAME", "This node",
         "its name in messages, a different one on each node (host name and\n"
         "a suffix)"},
        apply_node_id},
    row{{"node-rank", "N", "This node",
         "with --master-addr its group rank, from 0; otherwise a hint for\n"
         "the order of ranks",
         torchrun},
        apply_node_rank},
    row{{"local-addr", "ADDRESS", "This node",
         "the address at which other nodes reach it (detected)", torchrun},
        apply_local_addr},
    row{{"master-port", "PORT", "This node",
         "use this MASTER_PORT (a new one each round; with --master-addr {})", torchrun, value, 0,
         [] { return std::to_string(default_master_port); }},
        apply_master_port},
    row{{"shutdown-timeout", "SECONDS", "Failures",
         "from a signal to ddprun, which is passed to the workers, to SIGKILL;\n"
         "the same as drain_grace (30)",
         torchrun},
        apply_shutdown_timeout},
    row{{"failure-grace", "SECONDS", "Failures",
         "when a worker fails because a peer is gone, how long to wait for the\n"
         "root cause before all workers are stopped; 0: not at all (2)"},
        apply_failure_grace},
    row{{"restart-window", "SECONDS", "Failures",
         "after a round has run for this long without a failure,\n"
         "--max-restarts counts from zero again; 0: never (0)"},
        apply_restart_window},
    row{{"virtual-local-rank", "", "Workers",
         "each worker has LOCAL_RANK 0 and sees only the GPU of its local\n"
         "rank, by CUDA_VISIBLE_DEVICES",
         torchrun, flag},
        apply_virtual_local_rank},
    row{{"module", "", "Workers", "SCRIPT is a Python module, as with python -m", torchrun, flag,
         'm'},
        apply_module},
    row{{"no-python", "", "Workers", "SCRIPT is a program; run it without Python", torchrun, flag},
        apply_no_python},
    row{{"run-path", "", "Workers", "run SCRIPT with Python's runpy.run_path", torchrun, flag},
        apply_run_path},
    row{{"pass-local-rank", "", "Workers",
         "pass --local-rank=N as the script's first argument, as\n"
         "torch.distributed.launch does",
         ours, flag},
        apply_pass_local_rank},
    row{{.name = "local-rank", .whose = ours, .in_environment = false}, refuse_local_rank},
    row{{"nccl-ids", "auto | on | off", "Workers",
         "give workers NCCL unique ids in DDPRUN_NCCL_IDS, new ones for each\n"
         "round; auto: if a GPU is visible (auto)"},
        apply_nccl_ids},
    row{{"role", "NAME", "Workers", "ROLE_NAME of the workers (default)", torchrun}, apply_role},
    row{{"placeholders", "on | torchrun", "Workers",
         "what is replaced in ARGUMENTS: all placeholders below, or only\n"
         "torchrun's ${local_rank} (on)"},
        apply_placeholders},
    row{{"on-event", "COMMAND", "Failures",
         "run by /bin/sh -c on each event, which it reads as JSON from standard\n"
         "input: round_started, recovered, hang, hang_over, round_failed,\n"
         "ended; 30 s at most"},
        apply_on_event},
    row{{"master-addr", "ADDRESS", "Rendezvous",
         "several nodes: where they meet, at --master-port, if no endpoint is\n"
         "given: that of the node with --node-rank 0, which runs the daemon;\n"
         "one node: as --local-addr",
         torchrun},
        apply_master_addr},
    row{{"monitor-interval", "SECONDS", "Others", "ignored: ddprun does not poll its workers",
         torchrun},
        check_monitor_interval},
    row{{"start-method", "METHOD", "Others", "ignored: ddprun starts programs", torchrun},
        note_start_method},
    row{{"event-log-handler", "NAME", "Others", "ignored: ddprun has no Python events", torchrun},
        note_event_log_handler},
    row{{"signals-to-handle", "NAMES", "Others", "ignored: all signals that matter are handled",
         torchrun},
        note_signals_to_handle},
    row{{"exit-barrier-timeout", "SECONDS", "Others",
         "ignored: nodes wait for each other without a limit", torchrun},
        note_exit_barrier},
    row{{"use-env", "", "Others", "ignored: LOCAL_RANK is always in the environment", torchrun,
         flag},
        remember},
    row{{.name = "print-completion",
         .value = "bash | zsh",
         .heading = "Others",
         .help = "print a completion script for the shell",
         .whose = torchrun,
         .in_environment = false},
        print_completion},
    row{{"help", "", "Others", "show this text", torchrun, question, 'h'}, show_help},
    row{{"version", "", "Others", "show the version", ours, question}, show_version},
};

constexpr std::array options =
    std::apply([](const auto&... rows) { return std::array{rows...}; },
               std::tuple_cat(setting_options<options_draft>, own_options, node_rows, health_rows,
                              vault_rows, host_rows, pod_rows, failure_rows, output_rows,
                              cli::log_rows<options_draft>("Output of ddprun"),
                              torchruns_only<options_draft>));

// An option meant for another program may be an abbreviation of one of ours, so say so.
void note_abbreviation(options_draft& draft, const cli::given_option& option) {
  const std::string_view given = option.given;
  if (!given.starts_with("--")) return;
  const std::size_t length = std::min(given.find('='), given.size()) - 2;
  if (length >= option.spec->name.size()) return;
  draft.options.notes.push_back(option.given + " is taken for --" + std::string(option.spec->name));
}

}  // namespace

const cli::command& launcher_command() {
  static const cli::command launcher = {"ddprun", "PET_", true, cli::specs_of(options)};
  return launcher;
}

cli::checked apply_option(options_draft& draft, const cli::given_option& option) {
  draft.given[option.spec->name] = option.given;
  note_abbreviation(draft, option);
  return cli::apply_option(options, draft, option);
}

}  // namespace ddprun::launcher
