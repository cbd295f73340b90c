#include "launcher/cli/option_actions.hpp"

#include "launcher/cli/rendezvous_conf.hpp"

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

using apply_function = checked (*)(options_draft&, const given_option&);

template <typename Target, typename Read>
checked keep(Target& target, const Read& read) {
  if (!read) return read.error();
  target = *read;
  return {};
}

usage_error wrong(const given_option& option, const std::string& text) {
  return {option.given + ": " + text};
}

checked apply_nnodes(options_draft& draft, const given_option& option) {
  const auto range = read_node_range(option.given, option.value);
  if (!range) return range.error();
  draft.options.settings.nodes_min = range->min;
  draft.options.settings.nodes_max = range->max;
  draft.nodes = option.given;
  return {};
}

checked apply_nproc_per_node(options_draft& draft, const given_option& option) {
  worker_count_request& workers = draft.options.workers;
  workers = {};
  if (option.value == "auto") {
    workers.kind = worker_count_kind::automatic;
  } else if (option.value == "cpu") {
    workers.kind = worker_count_kind::cpu;
  } else if (option.value == "gpu") {
    workers.kind = worker_count_kind::gpu;
  } else if (option.value.empty() ||
             option.value.find_first_not_of("0123456789") != std::string::npos) {
    return wrong(option, "write a number of workers, or auto, cpu or gpu");
  } else {
    return keep(workers.number,
                read_count(option.given, option.value, "workers", 1, workers_limit));
  }
  return {};
}

checked apply_spares(options_draft& draft, const given_option& option) {
  return keep(draft.options.settings.spares_max,
              read_count(option.given, option.value, "spare nodes", 0, nodes_limit));
}

checked apply_endpoint(options_draft& draft, const given_option& option) {
  if (option.value.empty()) return {};  // torchrun's default
  draft.endpoint = option.given;
  return keep(draft.options.endpoint, read_endpoint(option.given, option.value));
}

checked apply_rdzv_id(options_draft& draft, const given_option& option) {
  draft.run_id = option.given;
  return keep(draft.options.run_id, read_name(option.given, option.value, "run id"));
}

checked apply_backend(options_draft& draft, const given_option& option) {
  draft.backend = option.given;
  if (option.value == "c10d") return {};
  if (option.value == "static") {
    return wrong(option,
                 "the static rendezvous is not there yet; use --rdzv-backend=c10d with "
                 "--rdzv-endpoint=HOST[:PORT], the same on all nodes");
  }
  if (option.value == "etcd" || option.value == "etcd-v2") {
    return wrong(option,
                 "etcd is not there yet; use --rdzv-backend=c10d with --rdzv-endpoint of "
                 "a ddprun-rendezvous daemon, or of the first node");
  }
  return wrong(option, "unknown rendezvous backend; use c10d");
}

checked apply_conf(options_draft& draft, const given_option& option) {
  auto conf = read_rendezvous_conf(option.given, option.value);
  if (!conf) return conf.error();
  draft.options.settings.timing = conf->timing;
  draft.is_host = conf->is_host;
  std::vector<std::string>& notes = draft.options.notes;
  notes.insert(notes.end(), conf->notes.begin(), conf->notes.end());
  return {};
}

checked apply_standalone(options_draft& draft, const given_option& option) {
  draft.standalone = option.given;
  return {};
}

checked apply_embed(options_draft& draft, const given_option& option) {
  draft.embed = option.given;
  if (option.value == "auto") {
    draft.options.embed = embed_policy::automatic;
  } else if (option.value == "always") {
    draft.options.embed = embed_policy::always;
  } else if (option.value == "never") {
    draft.options.embed = embed_policy::never;
  } else {
    return wrong(option, "write auto, always or never");
  }
  return {};
}

checked apply_node_id(options_draft& draft, const given_option& option) {
  return keep(draft.options.node_id, read_name(option.given, option.value, "node id"));
}

checked apply_node_rank(options_draft& draft, const given_option& option) {
  return keep(draft.options.node_rank,
              read_count(option.given, option.value, "the node's rank", 0, nodes_limit - 1));
}

checked apply_local_addr(options_draft& draft, const given_option& option) {
  return keep(draft.options.local_address, read_name(option.given, option.value, "address"));
}

checked apply_master_addr(options_draft& draft, const given_option& option) {
  draft.master_address = option.given;
  return keep(draft.master_address_value, read_name(option.given, option.value, "address"));
}

checked apply_master_port(options_draft& draft, const given_option& option) {
  const auto port = read_count(option.given, option.value, "the port", 0, 65535);
  if (!port) return wrong(option, "the port is a number from 1 to 65535, or 0 for a new one");
  draft.options.master_port = static_cast<std::uint16_t>(*port);
  return {};
}

checked apply_max_restarts(options_draft& draft, const given_option& option) {
  return keep(draft.options.settings.restarts_max,
              read_count(option.given, option.value, "restarts", 0, 1'000'000'000));
}

checked apply_max_node_losses(options_draft& draft, const given_option& option) {
  return keep(draft.options.settings.node_losses_max,
              read_count(option.given, option.value, "node losses in an hour", 0, 1'000'000'000));
}

checked apply_on_join(options_draft& draft, const given_option& option) {
  join_policy& policy = draft.options.settings.on_join;
  if (option.value == "wait") {
    policy = join_policy::wait;
  } else if (option.value == "restart") {
    policy = join_policy::restart;
  } else {
    return wrong(option, "write wait (new nodes wait for the next round) or restart");
  }
  return {};
}

checked apply_store(options_draft& draft, const given_option& option) {
  draft.store = option.given;
  if (option.value == "agent") {
    draft.options.settings.store = store_mode::agent;
  } else if (option.value == "worker") {
    draft.options.settings.store = store_mode::worker;
  } else {
    return wrong(option,
                 "write agent (ddprun serves the workers' TCPStore) or worker (rank 0 does)");
  }
  return {};
}

checked apply_shutdown_timeout(options_draft& draft, const given_option& option) {
  const auto seconds = read_seconds(option.given, option.value, false);
  if (!seconds) return seconds.error();
  draft.shutdown_timeout = *seconds;
  return {};
}

// torchrun polls its workers in this interval; ddprun is told by the kernel.
checked apply_monitor_interval(options_draft&, const given_option& option) {
  const auto seconds = read_seconds(option.given, option.value, true);
  if (!seconds) return seconds.error();
  return {};
}

checked apply_module(options_draft& draft, const given_option& option) {
  draft.module = option.given;
  draft.options.module = true;
  return {};
}

checked apply_no_python(options_draft& draft, const given_option& option) {
  draft.no_python = option.given;
  draft.options.no_python = true;
  return {};
}

checked apply_placeholders(options_draft& draft, const given_option& option) {
  if (option.value == "on") {
    draft.options.placeholders = placeholder_mode::on;
  } else if (option.value == "torchrun") {
    draft.options.placeholders = placeholder_mode::torchrun;
  } else {
    return wrong(option,
                 "write on ({rank} and its like are replaced) or torchrun (only "
                 "${local_rank})");
  }
  return {};
}

checked apply_role(options_draft& draft, const given_option& option) {
  return keep(draft.options.role, read_name(option.given, option.value, "role"));
}

checked apply_log_level(options_draft& draft, const given_option& option) {
  struct level_name {
    std::string_view name;
    note_level level;
  };
  static constexpr std::array names = {
      level_name{"debug", note_level::debug},     level_name{"info", note_level::info},
      level_name{"warning", note_level::warning}, level_name{"warn", note_level::warning},
      level_name{"error", note_level::error},     level_name{"critical", note_level::error},
  };
  for (const level_name& known : names) {
    const bool same = std::equal(
        known.name.begin(), known.name.end(), option.value.begin(), option.value.end(),
        [](char ours, char theirs) { return ours == theirs || ours - 'a' + 'A' == theirs; });
    if (!same) continue;
    draft.options.log_level = known.level;
    return {};
  }
  return wrong(option, "write debug, info, warning or error");
}

struct option_action {
  std::string_view name;
  apply_function apply;
};

constexpr std::array actions = {
    option_action{"nnodes", apply_nnodes},
    option_action{"nproc-per-node", apply_nproc_per_node},
    option_action{"spares", apply_spares},
    option_action{"rdzv-endpoint", apply_endpoint},
    option_action{"rdzv-id", apply_rdzv_id},
    option_action{"rdzv-backend", apply_backend},
    option_action{"rdzv-conf", apply_conf},
    option_action{"standalone", apply_standalone},
    option_action{"embed-daemon", apply_embed},
    option_action{"node-id", apply_node_id},
    option_action{"node-rank", apply_node_rank},
    option_action{"local-addr", apply_local_addr},
    option_action{"master-addr", apply_master_addr},
    option_action{"master-port", apply_master_port},
    option_action{"max-restarts", apply_max_restarts},
    option_action{"max-node-losses", apply_max_node_losses},
    option_action{"on-join", apply_on_join},
    option_action{"store", apply_store},
    option_action{"shutdown-timeout", apply_shutdown_timeout},
    option_action{"monitor-interval", apply_monitor_interval},
    option_action{"module", apply_module},
    option_action{"no-python", apply_no_python},
    option_action{"placeholders", apply_placeholders},
    option_action{"role", apply_role},
    option_action{"log-level", apply_log_level},
};

}  // namespace

checked apply_option(options_draft& draft, const given_option& option) {
  for (const option_action& action : actions) {
    if (action.name == option.spec->name) return action.apply(draft, option);
  }
  return {};  // unsupported, with a harmless value
}

}  // namespace ddprun
