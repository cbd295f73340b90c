#include "launcher/cli/option_table.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace ddprun {
namespace {

constexpr option_kind value = option_kind::value;
constexpr option_kind flag = option_kind::flag;

constexpr std::string_view no_logs =
    "ddprun writes no log files yet; send its own output to a file instead";
constexpr std::string_view no_filter = "every worker's output is shown, with a prefix [node:rank]";

constexpr std::array options = {
    option_spec{"nnodes"},
    option_spec{"nproc-per-node"},
    option_spec{"spares"},
    option_spec{"rdzv-endpoint"},
    option_spec{"rdzv-id"},
    option_spec{"rdzv-backend"},
    option_spec{"rdzv-conf"},
    option_spec{"standalone", flag},
    option_spec{"embed-daemon"},
    option_spec{"node-id"},
    option_spec{"node-rank"},
    option_spec{"local-addr"},
    option_spec{"master-addr"},
    option_spec{"master-port"},
    option_spec{"max-restarts"},
    option_spec{"max-node-losses"},
    option_spec{"on-join"},
    option_spec{"store"},
    option_spec{"shutdown-timeout"},
    option_spec{"monitor-interval"},
    option_spec{"module", flag, 'm'},
    option_spec{"no-python", flag},
    option_spec{"placeholders"},
    option_spec{"role"},
    option_spec{"log-level"},
    option_spec{"help", flag, 'h', false},
    option_spec{"version", flag, 0, false},
    // Known to torchrun and not to ddprun, or not yet.
    option_spec{"run-path", flag, 0, true,
                "ddprun starts every worker as a program of its own; leave the option out"},
    option_spec{"start-method", value, 0, true,
                "it chooses how Python functions are started, and ddprun starts programs; leave "
                "the option out",
                "spawn"},
    option_spec{"signals-to-handle", value, 0, true,
                "SIGTERM, SIGINT, SIGHUP and SIGQUIT are handled; leave the option out",
                "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
    option_spec{"log-dir", value, 0, true, no_logs},
    option_spec{"redirects", value, 'r', true, no_logs, "0"},
    option_spec{"tee", value, 't', true, no_logs, "0"},
    option_spec{"local-ranks-filter", value, 0, true, no_filter},
    option_spec{"duplicate-stdout-filters", value, 0, true, no_filter},
    option_spec{"duplicate-stderr-filters", value, 0, true, no_filter},
    option_spec{"log-line-prefix-template", value, 0, true,
                "every worker's line has the prefix [node:rank]; leave the option out"},
    option_spec{"print-completion", value, 0, false,
                "ddprun has no completion for shells; leave the option out"},
    option_spec{"event-log-handler", value, 0, true,
                "ddprun has no handlers of Python events; leave the option out", "null"},
    option_spec{"logs-specs", value, 0, false,
                "ddprun loads no Python entry points; leave the option out"},
    option_spec{"numa-binding", value, 0, true,
                "start the workers through numactl, with --no-python"},
    option_spec{"virtual-local-rank", flag, 0, true,
                "set CUDA_VISIBLE_DEVICES in the script from LOCAL_RANK instead"},
    option_spec{"exit-barrier-timeout", value, 0, true,
                "ddprun waits for the other nodes without a limit and says for whom"},
    option_spec{"use-env", flag, 0, false, "LOCAL_RANK is always in the environment; leave it out"},
};

constexpr std::array<std::string_view, 9> ours = {
    "spares", "embed-daemon", "node-id",   "max-node-losses", "on-join",
    "store",  "placeholders", "log-level", "version",
};

bool is_ours(const option_spec& spec) {
  return std::find(ours.begin(), ours.end(), spec.name) != ours.end();
}

std::string with_dashes(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed;
}

std::size_t edits(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t column = 0; column <= right.size(); ++column)
    row[column] = column;
  for (std::size_t line = 1; line <= left.size(); ++line) {
    std::size_t diagonal = row[0];
    row[0] = line;
    for (std::size_t column = 1; column <= right.size(); ++column) {
      const std::size_t above = row[column];
      const std::size_t change = diagonal + (left[line - 1] == right[column - 1] ? 0 : 1);
      row[column] = std::min({above + 1, row[column - 1] + 1, change});
      diagonal = above;
    }
  }
  return row.back();
}

usage_error ambiguous(std::string_view name, const std::vector<std::string_view>& matches) {
  std::string text = "--" + std::string(name) + " could be ";
  for (std::size_t index = 0; index < matches.size(); ++index) {
    if (index > 0) text += index + 1 == matches.size() ? " or " : ", ";
    text += "--" + std::string(matches[index]);
  }
  return {text + "; write more of it"};
}

usage_error unknown(std::string_view name, const std::string& dashed) {
  std::vector<std::string_view> names;
  for (const option_spec& spec : options)
    names.push_back(spec.name);
  const std::string_view close = nearest(dashed, names);
  std::string text = "unknown option --" + std::string(name) + "; ";
  if (!close.empty()) text += "did you mean --" + std::string(close) + "? ";
  return {text + "ddprun --help lists all (options of the script come after the script)"};
}

}  // namespace

std::span<const option_spec> option_table() {
  return options;
}

parsed<const option_spec*> find_option(std::string_view name) {
  const std::string dashed = with_dashes(name);
  std::vector<std::string_view> matches;
  const option_spec* match = nullptr;
  for (const bool of_ours : {false, true}) {
    for (const option_spec& spec : options) {
      if (spec.name == dashed) return &spec;
      if (dashed.empty() || !spec.name.starts_with(dashed) || is_ours(spec) != of_ours) continue;
      match = &spec;
      matches.push_back(spec.name);
    }
    if (matches.size() == 1) return match;
    if (matches.size() > 1) break;
  }
  if (matches.size() > 1) return ambiguous(name, matches);
  return unknown(name, dashed);
}

const option_spec* find_letter(char letter) {
  for (const option_spec& spec : options) {
    if (spec.letter == letter && letter != 0) return &spec;
  }
  return nullptr;
}

std::string environment_name(std::string_view option) {
  std::string name = "PET_";
  for (const char c : option)
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return name;
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_edits = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(name, candidate);
    if (distance < best_edits && distance < candidate.size()) {
      best = candidate;
      best_edits = distance;
    }
  }
  return best;
}

}  // namespace ddprun
