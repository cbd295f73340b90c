#include "launcher/hosts/kubernetes/kubernetes_manifest.hpp"

#include "launcher/hosts/kubernetes/exit_rules.hpp"
#include "launcher/hosts/kubernetes/pod_template.hpp"
#include "launcher/hosts/kubernetes/yaml.hpp"
#include "rendezvous/base/counted.hpp"

#include <cstdio>

namespace ddprun::launcher::kubernetes {
namespace {

void write_head(yaml_writer& yaml, const manifest_request& request, std::string_view version,
                std::string_view kind) {
  yaml.document();
  yaml.entry("apiVersion", version);
  yaml.entry("kind", kind);
  yaml.group("metadata", [&] {
    yaml.entry("name", request.name);
    if (!request.name_space.empty()) yaml.entry("namespace", request.name_space);
  });
}

void write_service(yaml_writer& yaml, const manifest_request& request) {
  write_head(yaml, request, "v1", "Service");
  yaml.group("spec", [&] {
    yaml.comment("Headless: it only gives each pod a name, and balances no load.");
    yaml.entry("clusterIP", "None");
    yaml.comment("Pods have to find each other before any of them is ready.");
    yaml.truth("publishNotReadyAddresses", true);
    yaml.group("selector", [&] { yaml.entry("job-name", request.name); });
    yaml.group("ports", [&] {
      yaml.item([&] {
        yaml.entry("name", "rendezvous");
        yaml.entry("port", rendezvous_port);
      });
    });
  });
}

template <typename Codes>
void write_exit_rule(yaml_writer& yaml, const pod_shape& shape, std::string_view action,
                     std::string_view comparison, const Codes& codes) {
  yaml.item([&] {
    yaml.entry("action", action);
    yaml.group("onExitCodes", [&] {
      yaml.entry("containerName", shape.container);
      yaml.entry("operator", comparison);
      yaml.group("values", [&] {
        for (const int code : codes)
          yaml.item(code);
      });
    });
  });
}

void write_failure_policy(yaml_writer& yaml, const pod_shape& shape) {
  yaml.group("podFailurePolicy", [&] {
    yaml.group("rules", [&] {
      yaml.comment("Preempted, evicted, its node drained: not the job's fault.");
      yaml.item([&] {
        yaml.entry("action", "Ignore");
        yaml.group("onPodConditions", [&] {
          yaml.item([&] {
            yaml.entry("type", "DisruptionTarget");
            yaml.entry("status", "True");
          });
        });
      });
      yaml.comment(
          "With any other code, which is a worker's, ddprun has used up its --max-restarts, and\n"
          "another pod would only fail again. After 68 (displaced), 69 (the others did not come "
          "in\n"
          "time), 78 (refused), 137 (killed) and 143 (told to go) the pod is replaced, which "
          "counts\n"
          "against backoffLimitPerIndex.");
      write_exit_rule(yaml, shape, "FailJob", "NotIn", worth_a_successor);
    });
  });
}

// Writes the mapping below "spec" of a Job. The Trainer sets the number of pods itself.
void write_job_spec(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape,
                    bool has_size) {
  if (has_size) {
    yaml.entry("completions", std::int64_t{request.nodes_max});
    yaml.entry("parallelism", std::int64_t{request.nodes_max});
  }
  yaml.comment("JOB_COMPLETION_INDEX is the node's number, which its successor gets, too.");
  yaml.entry("completionMode", "Indexed");
  yaml.comment("A lost pod is replaced alone, once it is known to be gone.");
  yaml.entry("backoffLimitPerIndex", successors_max);
  if (request.is_elastic())
    yaml.comment("The run goes on with " + counted(request.nodes_min, "node") + ".");
  yaml.entry("maxFailedIndexes", std::int64_t{request.nodes_max - request.nodes_min});
  if (request.is_elastic()) {
    yaml.comment(
        "All pods succeed together, when the run has; an index whose pod was away at that moment\n"
        "would find no other pod.");
    yaml.group("successPolicy", [&] {
      yaml.group("rules", [&] {
        yaml.item([&] { yaml.entry("succeededCount", std::int64_t{request.nodes_min}); });
      });
    });
  }
  yaml.entry("podReplacementPolicy", "Failed");
  write_failure_policy(yaml, shape);
  yaml.group("template", [&] { write_pod(yaml, request, shape); });
}

void write_job(yaml_writer& yaml, const manifest_request& request) {
  write_service(yaml, request);
  write_head(yaml, request, "batch/v1", "Job");
  pod_shape shape;
  shape.subdomain = request.name;
  yaml.group("spec", [&] { write_job_spec(yaml, request, shape, true); });
}

void write_jobset(yaml_writer& yaml, const manifest_request& request) {
  write_head(yaml, request, "jobset.x-k8s.io/v1alpha2", "JobSet");
  yaml.group("spec", [&] {
    yaml.group("network", [&] {
      yaml.truth("enableDNSHostnames", true);
      yaml.entry("subdomain", request.name);
      yaml.comment("Pods have to find each other before any of them is ready.");
      yaml.truth("publishNotReadyAddresses", true);
    });
    yaml.comment("Its Job replaces single pods; to restart all of them would be a new budget.");
    yaml.group("failurePolicy", [&] { yaml.entry("maxRestarts", std::int64_t{0}); });
    yaml.group("replicatedJobs", [&] {
      yaml.item([&] {
        yaml.entry("name", "node");
        yaml.entry("replicas", 1);
        yaml.group("template", [&] {
          yaml.group("spec", [&] { write_job_spec(yaml, request, pod_shape{}, true); });
        });
      });
    });
  });
}

void write_runtime(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape) {
  yaml.comment(
      "What a TrainJob cannot say itself: /dev/shm, probes, the time to leave, the rules.");
  write_head(yaml, request, "trainer.kubeflow.org/v1alpha1", "TrainingRuntime");
  yaml.group("spec", [&] {
    yaml.group("mlPolicy", [&] {
      yaml.entry("numNodes", std::int64_t{request.nodes_max});
      yaml.comment("Sets PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR, ..., which ddprun reads.");
      yaml.nothing("torch");
    });
    yaml.group("template", [&] {
      yaml.group("spec", [&] {
        yaml.group("network", [&] { yaml.truth("publishNotReadyAddresses", true); });
        yaml.group("failurePolicy", [&] { yaml.entry("maxRestarts", std::int64_t{0}); });
        yaml.group("replicatedJobs", [&] {
          yaml.item([&] {
            yaml.entry("name", "node");
            yaml.group("template", [&] {
              yaml.group("metadata", [&] {
                yaml.group("labels", [&] {
                  yaml.entry("trainer.kubeflow.org/trainjob-ancestor-step", "trainer");
                });
              });
              yaml.group("spec", [&] { write_job_spec(yaml, request, shape, false); });
            });
          });
        });
      });
    });
  });
}

void write_trainjob(yaml_writer& yaml, const manifest_request& request) {
  pod_shape shape;
  shape.container = "node";
  shape.has_line = shape.tells_size = false;
  write_runtime(yaml, request, shape);
  write_head(yaml, request, "trainer.kubeflow.org/v1alpha1", "TrainJob");
  yaml.group("spec", [&] {
    yaml.group("runtimeRef", [&] {
      yaml.entry("apiGroup", "trainer.kubeflow.org");
      yaml.entry("kind", "TrainingRuntime");
      yaml.entry("name", request.name);
    });
    yaml.group("trainer", [&] {
      yaml.entry("image", request.image);
      write_line(yaml, request, shape);
      yaml.entry("numNodes", std::int64_t{request.nodes_max});
      yaml.entry("numProcPerNode", std::int64_t{request.workers});
      const bool has_resources = request.gpus > 0 || !request.processors.empty() ||
                                 !request.memory.empty() || !request.rdma_resource.empty();
      if (has_resources) yaml.group("resourcesPerNode", [&] { write_resources(yaml, request); });
    });
  });
}

void write_replicas(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape,
                    std::string_view role, std::uint32_t count) {
  yaml.group(role, [&] {
    yaml.entry("replicas", std::int64_t{count});
    yaml.comment("Codes from 128 on, of pods that were killed or told to go, bring a successor.");
    yaml.entry("restartPolicy", "ExitCode");
    yaml.group("template", [&] { write_pod(yaml, request, shape); });
  });
}

void write_pytorchjob(yaml_writer& yaml, const manifest_request& request) {
  pod_shape shape;
  shape.container = "pytorch";
  shape.restarts = {};
  shape.knows_job = false;
  write_head(yaml, request, "kubeflow.org/v1", "PyTorchJob");
  yaml.group("spec", [&] {
    yaml.group("runPolicy", [&] {
      yaml.entry("backoffLimit", successors_max);
      yaml.comment("Logs stay until somebody deletes the job.");
      yaml.entry("cleanPodPolicy", "None");
    });
    yaml.entry("nprocPerNode", request.workers_word.empty() ? std::to_string(request.workers)
                                                            : request.workers_word);
    yaml.group("pytorchReplicaSpecs", [&] {
      write_replicas(yaml, request, shape, "Master", 1);
      if (request.nodes_max > 1)
        write_replicas(yaml, request, shape, "Worker", request.nodes_max - 1);
    });
  });
}

}  // namespace

std::string manifest_text(const manifest_request& request) {
  yaml_writer yaml;
  yaml.comment("Written by ddprun manifest kubernetes; kubectl apply -f - takes it.");
  for (const std::string& note : request.notes)
    yaml.comment("Note: " + note);
  switch (request.kind) {
    case manifest_kind::job:
      write_job(yaml, request);
      break;
    case manifest_kind::jobset:
      write_jobset(yaml, request);
      break;
    case manifest_kind::trainjob:
      write_trainjob(yaml, request);
      break;
    case manifest_kind::pytorchjob:
      write_pytorchjob(yaml, request);
      break;
  }
  return yaml.text();
}

int write_manifest(const std::vector<std::string>& words) {
  const auto fail = [](const std::string& text) {
    std::fprintf(stderr, "ddprun manifest: %s\n", text.c_str());
    return usage_exit_code;
  };
  // There is only one kind of manifest, so --help shows its help.
  const bool asks_for_help = !words.empty() && (words.front() == "--help" || words.front() == "-h");
  if (!asks_for_help && (words.empty() || words.front() != "kubernetes")) {
    const std::string what = words.empty() ? "what for?" : "'" + words.front() + "' is not known;";
    return fail(what + " write ddprun manifest kubernetes [OPTIONS] SCRIPT [ARGUMENTS]");
  }
  const auto first = words.begin() + (asks_for_help ? 0 : 1);
  const request_outcome outcome = read_request({first, words.end()});
  if (const auto* const wrong = std::get_if<cli::usage_error>(&outcome)) return fail(wrong->text);
  if (const auto* const shown = std::get_if<cli::show_text>(&outcome)) {
    std::fputs(shown->text.c_str(), stdout);
    return 0;
  }
  std::fputs(manifest_text(std::get<manifest_request>(outcome)).c_str(), stdout);
  return 0;
}

}  // namespace ddprun::launcher::kubernetes
