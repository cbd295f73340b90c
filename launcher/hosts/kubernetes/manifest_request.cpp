#include "launcher/hosts/kubernetes/manifest_request.hpp"

#include "launcher/cli/option_table.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/hosts/kubernetes/ascii.hpp"
#include "launcher/hosts/kubernetes/checked_values.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/values.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace ddprun::launcher::kubernetes {
namespace {

// The Job controller's limit for an Indexed Job.
constexpr std::uint32_t pods_max = 100'000;
constexpr std::uint32_t gpus_max = 64;

// Added to the agent's own worst case, because the container takes time to end too.
constexpr auto grace_margin = std::chrono::seconds(5);

struct request_draft {
  manifest_request request;
  std::string nodes_given;
  std::string name_given;
  std::string answer;  // to --help
};

using cli::given_option;

cli::checked apply_kind(request_draft& of, const given_option& option) {
  static constexpr cli::typed_word<manifest_kind> words[] = {
      {"job", manifest_kind::job},
      {"jobset", manifest_kind::jobset},
      {"trainjob", manifest_kind::trainjob},
      {"pytorchjob", manifest_kind::pytorchjob}};
  return cli::keep(of.request.kind, cli::read_word(option.given, option.value, words,
                                                   "job, jobset, trainjob or pytorchjob"));
}

cli::checked apply_nodes(request_draft& of, const given_option& option) {
  const auto range = cli::read_node_range(option.given, option.value, pods_max);
  if (!range) return range.error();
  of.nodes_given = option.given;
  of.request.nodes_min = range->min;
  of.request.nodes_max = range->max;
  return {};
}

cli::checked apply_workers(request_draft& of, const given_option& option) {
  if (option.value == "auto" || option.value == "cpu" || option.value == "gpu") {
    of.request.workers_word = option.value;
    of.request.workers = 0;
    return {};
  }
  of.request.workers_word.clear();
  return cli::keep(of.request.workers,
                   cli::read_count(option.given, option.value, "workers", 1, 1024));
}

cli::checked apply_gpus_of_node(request_draft& of, const given_option& option) {
  return cli::keep(of.request.gpus,
                   cli::read_count(option.given, option.value, "GPUs of a node", 0, gpus_max));
}

cli::checked apply_image(request_draft& of, const given_option& option) {
  return cli::keep(of.request.image, read_image(option.given, option.value));
}

cli::checked apply_name(request_draft& of, const given_option& option) {
  of.name_given = option.given;
  return cli::keep(of.request.name, read_service_name(option.given, option.value));
}

cli::checked apply_name_space(request_draft& of, const given_option& option) {
  return cli::keep(of.request.name_space, read_label(option.given, option.value));
}

cli::checked apply_processors(request_draft& of, const given_option& option) {
  return cli::keep(of.request.processors, read_processors(option.given, option.value));
}

cli::checked apply_memory(request_draft& of, const given_option& option) {
  return cli::keep(of.request.memory, read_bytes(option.given, option.value));
}

cli::checked apply_shared_memory(request_draft& of, const given_option& option) {
  return cli::keep(of.request.shared_memory, read_bytes(option.given, option.value));
}

// Reads "DOMAIN/NAME".
cli::checked read_resource(std::string& target, const given_option& option) {
  const std::size_t slash = option.value.find('/');
  const bool is_good =
      slash != std::string::npos && slash != 0 && slash + 1 != option.value.size() &&
      std::all_of(option.value.begin(), option.value.end(), [](char c) {
        return is_letter(c) || is_digit(c) || c == '/' || c == '-' || c == '_' || c == '.';
      });
  if (!is_good) return cli::wrong(option, "write the resource's name, as nvidia.com/gpu");
  target = option.value;
  return {};
}

cli::checked apply_gpu_resource(request_draft& of, const given_option& option) {
  return read_resource(of.request.gpu_resource, option);
}

cli::checked apply_rdma(request_draft& of, const given_option& option) {
  return read_resource(of.request.rdma_resource, option);
}

cli::checked apply_volume(request_draft& of, const given_option& option) {
  const std::size_t colon = option.value.find(':');
  if (colon == std::string::npos || colon + 1 >= option.value.size() ||
      option.value[colon + 1] != '/') {
    return cli::wrong(option, "write CLAIM:/PATH, a PersistentVolumeClaim and where it is mounted");
  }
  const auto claim = read_label(option.given, option.value.substr(0, colon));
  if (!claim) return claim.error();
  of.request.claim = *claim;
  of.request.claim_path = option.value.substr(colon + 1);
  return {};
}

cli::checked apply_variable(request_draft& of, const given_option& option) {
  const auto variable = read_variable(option.given, option.value);
  if (!variable) return variable.error();
  for (auto& [name, value] : of.request.variables) {
    if (name != variable->first) continue;
    value = variable->second;
    return {};
  }
  of.request.variables.push_back(*variable);
  return {};
}

cli::checked apply_container_restarts(request_draft& of, const given_option&) {
  of.request.restarts_containers = true;
  return {};
}

cli::checked show_help(request_draft& of, const given_option& option);

using manifest_row = cli::option<request_draft>;
constexpr cli::option_owner ours = cli::option_owner::ddprun;

constexpr std::array manifest_table = {
    manifest_row{{"kind", "job | jobset | trainjob | pytorchjob", "",
                  "an Indexed Job with its Service; a JobSet; a TrainJob of Kubeflow\n"
                  "Trainer with a TrainingRuntime; a PyTorchJob (job)"},
                 apply_kind},
    manifest_row{{"nnodes", "N | MIN:MAX", "", "pods; with MIN:MAX the run goes on with fewer (1)"},
                 apply_nodes},
    manifest_row{{"gpus", "N", "",
                  "GPUs of each pod; one worker per GPU unless --nproc-per-node is given\n"
                  "(0)"},
                 apply_gpus_of_node},
    manifest_row{{"nproc-per-node", "N | auto", "", "workers of each pod"}, apply_workers},
    manifest_row{{"image", "IMAGE", "", "the image; it contains ddprun, Python and the script"},
                 apply_image},
    manifest_row{{"name", "NAME", "", "name of the job and of its Service (the script's)"},
                 apply_name},
    manifest_row{{"namespace", "NAME", "", "namespace of both (that of kubectl)"},
                 apply_name_space},
    manifest_row{{"cpu", "N", "", "processors of each pod: 8, 500m"}, apply_processors},
    manifest_row{{"memory", "BYTES", "", "memory of each pod: 64Gi"}, apply_memory},
    manifest_row{
        {"shm-size", "BYTES", "", "size of /dev/shm, which counts as memory of the pod (8Gi)"},
        apply_shared_memory},
    manifest_row{{"env", "NAME=VALUE", "", "set a variable for the workers; may be repeated", ours,
                  cli::option_kind::value, 'e'},
                 apply_variable},
    manifest_row{
        {"volume", "CLAIM:/PATH", "", "mount a PersistentVolumeClaim, for data or snapshots"},
        apply_volume},
    manifest_row{{"gpu-resource", "NAME", "", "the device plugin's name for GPUs (nvidia.com/gpu)"},
                 apply_gpu_resource},
    manifest_row{
        {"rdma", "NAME", "", "request one of these for InfiniBand (rdma/hca), with IPC_LOCK"},
        apply_rdma},
    manifest_row{{"container-restarts", "", "",
                  "let kubelet restart a container in its pod (Kubernetes 1.35)", ours,
                  cli::option_kind::flag},
                 apply_container_restarts},
    manifest_row{{"help", "", "", "show this text", ours, cli::option_kind::question, 'h'},
                 show_help},
};

bool is_own(const cli::option_spec& spec) {
  return std::any_of(manifest_table.begin(), manifest_table.end(),
                     [&](const manifest_row& each) { return each.spec.name == spec.name; });
}

// The command's own options, and all of ddprun's that make sense in a pod.
const cli::command& manifest_command() {
  static const cli::command made = [] {
    cli::command all = {"ddprun manifest kubernetes", "", true, cli::specs_of(manifest_table)};
    for (const cli::option_spec* spec : launcher_command().options) {
      const bool is_letter_taken = spec->letter == 'e' || spec->letter == 'h';
      if (!is_own(*spec) && spec->kind != cli::option_kind::question && !is_letter_taken)
        all.options.push_back(spec);
    }
    return all;
  }();
  return made;
}

cli::checked show_help(request_draft& of, const given_option&) {
  static const cli::command own = {"ddprun manifest kubernetes", "", true,
                                   cli::specs_of(manifest_table)};
  of.answer = R"(usage: ddprun manifest kubernetes [OPTIONS] SCRIPT [ARGUMENTS] | kubectl apply -f -

Writes the manifest of a job whose pods run ddprun, as YAML with comments. In a pod ddprun finds out
by itself which node it is and where the nodes meet. All other options are for the ddprun in the
pods: --max-restarts=3, --no-python, -m, ...

)" + help_under(own, "");
  return {};
}

// Refuses options that the pods know better, or that would keep the pods apart.
cli::checked check_passed_on(const given_option& option) {
  static constexpr std::array meeting = {"rdzv-endpoint", "standalone",  "rdzv-backend",
                                         "master-addr",   "master-port", "node-rank",
                                         "node-id",       "embed-daemon"};
  const std::string_view name = option.spec->name;
  if (std::find(meeting.begin(), meeting.end(), name) != meeting.end()) {
    return cli::wrong(option,
                      "the pods know where they meet, and which one each of them is; leave "
                      "it out");
  }
  if (name == "health-port" || name == "drain-exit-code")
    return cli::wrong(option, "the manifest's probes and rules go by its own; leave it out");
  return {};
}

std::string word_of(const given_option& option) {
  const std::string name = "--" + std::string(option.spec->name);
  return option.spec->kind == cli::option_kind::flag ? name : name + "=" + option.value;
}

// "train" from "/data/My_train.py"; "ddprun" if nothing usable is left.
std::string name_of_script(std::string_view script) {
  script.remove_prefix(script.rfind('/') + 1);
  script = script.substr(0, script.find('.'));
  std::string name;
  for (const char c : script) {
    const char small = to_small_letter(c);
    const bool is_kept = is_small_letter(small) || (is_digit(small) && !name.empty());
    if (is_kept) {
      name += small;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name = name.substr(0, 40);
  while (name.ends_with('-'))
    name.pop_back();
  return name.empty() ? "ddprun" : name;
}

// The pods' names are longer: "train-node-0-12".
cli::checked check_name_length(const request_draft& of) {
  const manifest_request& request = of.request;
  const bool has_groups =
      request.kind == manifest_kind::jobset || request.kind == manifest_kind::trainjob;
  const std::string last = std::to_string(request.nodes_max - 1);
  std::string suffix = (has_groups ? "-node-0-" : "-") + last;
  if (request.kind == manifest_kind::pytorchjob) suffix = "-worker-" + last;
  const std::size_t length = request.name.size() + suffix.size();
  if (length <= 63) return {};
  return cli::wrong(of.name_given, "pods are called " + request.name + suffix + ", which has " +
                                       std::to_string(length) +
                                       " characters, and a host name has at most 63; shorten it");
}

cli::checked check_utf8(const manifest_request& request) {
  const auto check = [](const std::string& text) {
    return is_valid_utf8(text)
               ? cli::checked()
               : cli::usage_error{"'" + to_valid_utf8(text) +
                                  "': a manifest is UTF-8, and this argument is not"};
  };
  if (const cli::checked wrong = check(request.program)) return wrong;
  for (const std::string& argument : request.arguments) {
    if (const cli::checked wrong = check(argument)) return wrong;
  }
  return {};
}

// Reads the line that a pod will run as the pod will: its mistakes are reported here, and its
// timers determine how long a pod takes to stop.
cli::checked check_pods_line(manifest_request& request) {
  std::vector<std::string> line = {"--nnodes=" + std::to_string(request.nodes_min) + ":" +
                                   std::to_string(request.nodes_max)};
  line.insert(line.end(), request.options.begin(), request.options.end());
  line.push_back(request.program);
  hosts::placement first;
  first.engine = "Kubernetes";
  first.nodes = request.nodes_max;
  first.meeting_host = request.name;
  first.meeting_port = rendezvous_port;
  const parse_outcome outcome = parse_options(line, {}, {}, [&] { return first; });
  if (const auto* const wrong = std::get_if<cli::usage_error>(&outcome)) return *wrong;
  const auto& options = std::get<launch_options>(outcome);
  const timers& timing = options.settings.timing;
  const duration longest =
      timing.drain_grace + timing.kill_wait + timing.node_timeout + timing.linger;
  request.grace = std::chrono::ceil<std::chrono::seconds>(longest) + grace_margin;
  request.notes = options.notes;
  return {};
}

cli::checked complete(request_draft& of) {
  manifest_request& request = of.request;
  if (request.program.empty()) {
    return cli::usage_error{
        "no script given; usage: ddprun manifest kubernetes --nnodes N --image IMAGE SCRIPT "
        "[ARGUMENTS]"};
  }
  if (request.image.empty())
    return cli::usage_error{"--image=IMAGE is missing: what the pods run, with ddprun in it"};
  if (request.name.empty()) {
    request.name = name_of_script(request.program);
    of.name_given = "--name=" + request.name;
  }
  if (request.workers == 0 && request.workers_word.empty())
    request.workers = std::max<std::uint32_t>(request.gpus, 1);
  if (request.kind == manifest_kind::trainjob && !request.workers_word.empty()) {
    return cli::usage_error{"--nproc-per-node=" + request.workers_word +
                            ": a TrainJob has a number there; write it"};
  }
  if (request.restarts_containers && request.kind == manifest_kind::pytorchjob) {
    return cli::usage_error{
        "--container-restarts is not for a PyTorchJob, which has rules of its own; leave it out"};
  }
  if (const cli::checked wrong = check_name_length(of)) return wrong;
  if (const cli::checked wrong = check_utf8(request)) return wrong;
  return check_pods_line(request);
}

}  // namespace

request_outcome read_request(const std::vector<std::string>& words) {
  auto line = cli::split_command_line(manifest_command(), words, {});
  if (!line) return line.error();
  request_draft of;
  for (const given_option& option : line->options) {
    if (is_own(*option.spec)) {
      if (const cli::checked bad = cli::apply_option(manifest_table, of, option)) return *bad;
    } else {
      if (const cli::checked bad = check_passed_on(option)) return *bad;
      of.request.options.push_back(word_of(option));
    }
  }
  if (!of.answer.empty()) return cli::show_text{std::move(of.answer)};
  of.request.program = std::move(line->program);
  of.request.arguments = std::move(line->arguments);
  if (const cli::checked bad = complete(of)) return *bad;
  return std::move(of.request);
}

}  // namespace ddprun::launcher::kubernetes
