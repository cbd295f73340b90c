// ddprun: the launcher and agent of one node. See README.md and `ddprun --help`.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/node_plan.hpp"
#include "launcher/agent/own_job.hpp"
#include "launcher/agent/unable_report.hpp"
#include "launcher/base/random_value.hpp"
#include "launcher/cli/check_files.hpp"
#include "launcher/cli/help.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/hosts/doctor/doctor.hpp"
#include "launcher/hosts/doctor/doctor_hosts.hpp"
#include "launcher/hosts/doctor/health_now.hpp"
#include "launcher/hosts/doctor/nvml.hpp"
#include "launcher/hosts/doctor/start_check.hpp"
#include "launcher/hosts/engines.hpp"
#include "launcher/hosts/kubernetes/kubernetes_manifest.hpp"
#include "launcher/hosts/ssh/head.hpp"
#include "launcher/hosts/ssh/ordered_agent.hpp"
#include "launcher/hosts/ssh/plan.hpp"
#include "launcher/node/installed_packages.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/guardian_process.hpp"
#include "launcher/report/explain.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/net/host_name.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace {

// When the head ends, this process is killed that long after its workers' grace is over.
constexpr auto leaving_limit = std::chrono::seconds(15);

int usage(const ddprun::cli::usage_error& error) {
  // Without a text, another process reports the error.
  if (!error.text.empty()) std::fprintf(stderr, "ddprun: %s\n", error.text.c_str());
  return ddprun::usage_exit_code;
}

// Reports the error, and tells the other nodes of the run.
int unable(const ddprun::launcher::launch_options& options, const ddprun::cli::usage_error& error) {
  const int code = usage(error);
  const std::string node =
      options.node_id.empty() ? ddprun::net::short_host_name() : options.node_id;
  ddprun::launcher::tell_run_unable(options, node, error.text);
  return code;
}

// The same if the command line cannot be parsed, as far as it can be understood.
int refuse(const std::vector<std::string>& words, const ddprun::environment_map& environment,
           const ddprun::cli::usage_error& error) {
  if (error.text.empty()) return usage(error);
  const auto options = ddprun::launcher::meeting_of_refused(words, environment);
  return options ? unable(*options, error) : usage(error);
}

using ddprun::launcher::random_value;

ddprun::launcher::agent_identity make_identity(const ddprun::launcher::launch_options& options,
                                               std::uint32_t workers) {
  ddprun::launcher::agent_identity identity;
  identity.session = {random_value<std::uint64_t>() | 1, random_value<std::uint64_t>()};
  identity.tether_session = {random_value<std::uint64_t>() | 1, random_value<std::uint64_t>()};
  identity.mark = ddprun::to_string(
      ddprun::session_id{random_value<std::uint64_t>() | 1, random_value<std::uint64_t>()});
  identity.seed = random_value<std::uint64_t>();
  identity.worker_count = workers;
  identity.node = options.node_id;
  if (identity.node.empty()) {
    // Two agents on one host, and two hosts of one name, are normal: the suffix tells them apart.
    identity.node = ddprun::net::short_host_name() + "-" + identity.mark.substr(24);
  }
  return identity;
}

// `head` is the one on another host that has ordered this agent; null: a user has typed the
// command.
int run_agent(const std::vector<std::string>& words, ddprun::environment_map environment,
              ddprun::launcher::ssh::ordered_agent* head) {
  std::string placed_by;  // the engine that has said where this is; empty: none was asked
  ddprun::launcher::parse_outcome outcome = ddprun::launcher::parse_options(
      words, environment, [&] { return ddprun::launcher::installed_torch(environment); },
      [&] {
        auto placement = ddprun::launcher::hosts::find_placement(environment);
        if (const auto* const found = std::get_if<ddprun::launcher::hosts::placement>(&placement))
          placed_by = found->engine;
        return placement;
      });
  if (const auto* error = std::get_if<ddprun::cli::usage_error>(&outcome))
    return refuse(words, environment, *error);
  if (const auto* shown = std::get_if<ddprun::cli::show_text>(&outcome)) {
    std::fputs(shown->text.c_str(), stdout);
    return 0;
  }
  auto options = std::get<ddprun::launcher::launch_options>(std::move(outcome));
  // If no agent may open a daemon, the daemon that the head names is its own.
  const bool is_heads = head != nullptr && options.embed == ddprun::launcher::embed_policy::never;
  const std::string too_few =
      ddprun::net::too_few_descriptors(ddprun::net::hard_descriptor_limit());
  if (!too_few.empty()) return unable(options, {too_few});
  options.starts_once = is_heads || ddprun::launcher::hosts::starts_each_once(environment);
  const auto tie_to_engine =
      ddprun::launcher::hosts::settle_with_engines(environment, options, placed_by);
  // Looked up only once, because a folder of PATH may hang later and must not delay a restart.
  options.python = ddprun::launcher::python_program(environment);
  if (const ddprun::cli::checked error = ddprun::launcher::check_files(options, environment))
    return unable(options, *error);
  ddprun::launcher::hosts::mark_task(environment);
  auto plan = ddprun::launcher::plan_node(options, environment);
  if (!plan) return unable(options, plan.error());
  options.local_address = plan->address;
  options.notes.insert(options.notes.end(), plan->notes.begin(), plan->notes.end());
  ddprun::launcher::agent_identity identity = make_identity(options, plan->workers);
  identity.visible_gpus = plan->visible_gpus;
  identity.processors = std::move(plan->processors);
  if (options.run_id.empty()) options.run_id = identity.mark;
  identity.job = ddprun::launcher::own_job(options, identity.node, std::time(nullptr));

  auto logs = ddprun::launcher::log_folder::make(options.output, options.run_id, identity.node,
                                                 identity.mark, environment);
  if (!logs) return unable(options, logs.error());

  // Forked before any thread or socket exists.
  ddprun::launcher::guardian_process guard = ddprun::launcher::start_guardian();
  if (options.checks_node) {
    namespace doctor = ddprun::launcher::doctor;
    identity.look_at_node = [look = std::make_shared<doctor::start_look>(
                                 doctor::start_check_limit, "/", environment)](bool waits) {
      return look->take(waits);
    };
    identity.look_at_health = [environment] {
      return doctor::health_now("/", environment, ::getpid());
    };
  }
  if (head != nullptr) {
    *identity.drain_grace = options.settings.timing.drain_grace;
    head->begin([grace = identity.drain_grace] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(grace->load() + leaving_limit);
    });
  }
  ddprun::launcher::agent agent(std::move(options), std::move(identity),
                                std::move(plan->environment), std::move(*logs), std::move(guard));
  const ddprun::launcher::hosts::engine_tie tie = tie_to_engine();
  const int code = agent.run();
  if (head != nullptr) head->leaves_because(agent.why_it_left());
  return code;
}

// A first word of the command line, and the function for the words after it.
struct subcommand {
  std::string_view name;
  int (*run)(const std::vector<std::string>& words, const ddprun::environment_map& environment);
};

int explain(const std::vector<std::string>& words, const ddprun::environment_map&) {
  std::vector<const char*> files;
  for (const std::string& word : words)
    files.push_back(word.c_str());
  return ddprun::launcher::explain(files);
}

int write_manifest(const std::vector<std::string>& words, const ddprun::environment_map&) {
  return ddprun::launcher::kubernetes::write_manifest(words);
}

constexpr subcommand subcommands[] = {
    {"explain", explain},
    {"doctor", ddprun::launcher::doctor::examine},
    {"manifest", write_manifest},
};

int run(int argc, char** argv) {
  if (auto ordered = ddprun::launcher::ssh::ordered_agent::from_arguments(argc, argv)) {
    const int code = ordered->take_order()
                         ? run_agent(ordered->words(), ddprun::environment_from(environ), &*ordered)
                         : ddprun::usage_exit_code;
    ordered->end(code);
    return code;
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  if (auto job = ddprun::launcher::doctor::words_for_hosts(words)) words = std::move(*job);
  const ddprun::environment_map environment = ddprun::environment_from(environ);
  for (const subcommand& each : subcommands) {
    if (!words.empty() && words.front() == each.name)
      return each.run({words.begin() + 1, words.end()}, environment);
  }
  namespace ssh = ddprun::launcher::ssh;
  auto plan = ssh::plan_head(words, environment, ssh::read_text);
  if (!plan) return usage(plan.error());
  if (*plan) return ssh::run_head(std::move(**plan), environment, random_value<std::uint64_t>());
  return run_agent(words, environment, nullptr);
}

// What was asked for (a manifest, the doctor's findings) and did not reach its file is no success.
// A job's output has a writer of its own, which reports what it loses.
int exit_code_after_output(int code) {
  const bool was_refused = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !was_refused) return code;
  std::fprintf(stderr, "ddprun: standard output cannot be written%s%s\n", errno == 0 ? "" : ": ",
               errno == 0 ? "" : std::strerror(errno));
  return code == 0 ? 1 : code;
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::outlive_file_size_limit();
  ddprun::launcher::become_guardian_if_asked(argc, argv);
  ddprun::ensure_standard_descriptors();
  ddprun::launcher::doctor::answer_nvml_if_asked(argc, argv);
  try {
    return exit_code_after_output(run(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddprun: cannot go on: %s\n", error.what());
    return ddprun::failed_exit_code;
  }
}
