#include "launcher/hosts/kubernetes/pod_template.hpp"

#include "launcher/hosts/kubernetes/checked_values.hpp"
#include "launcher/hosts/kubernetes/exit_rules.hpp"
#include "rendezvous/base/exit_codes.hpp"

namespace ddprun::launcher::kubernetes {
namespace {

void write_field(yaml_writer& yaml, std::string_view name, std::string_view path) {
  yaml.item([&] {
    yaml.entry("name", name);
    yaml.group("valueFrom",
               [&] { yaml.group("fieldRef", [&] { yaml.entry("fieldPath", path); }); });
  });
}

void write_environment(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape) {
  yaml.group("env", [&] {
    yaml.comment("How messages call this node: as kubectl does.");
    write_field(yaml, "PET_NODE_ID", "metadata.name");
    if (shape.knows_job) {
      yaml.comment(
          "The run is this very Job: pods that are left of an older one of its name are not\n"
          "let in.");
      write_field(yaml, "PET_RDZV_ID", "metadata.labels['batch.kubernetes.io/controller-uid']");
    } else {
      yaml.item([&] {
        yaml.entry("name", "PET_RDZV_ID");
        yaml.entry("value", request.name);
      });
    }
    for (const auto& [name, value] : request.variables) {
      yaml.item([&, &name = name, &value = value] {
        yaml.entry("name", name);
        yaml.entry("value", without_expansion(value));
      });
    }
  });
}

void write_ports(yaml_writer& yaml) {
  yaml.group("ports", [&] {
    yaml.item([&] {
      yaml.entry("name", "rendezvous");
      yaml.entry("containerPort", rendezvous_port);
    });
    yaml.item([&] {
      yaml.entry("name", "health");
      yaml.entry("containerPort", health_port);
    });
  });
}

void write_probe(yaml_writer& yaml, std::string_view name, int period, int failures) {
  yaml.group(name, [&] {
    yaml.group("httpGet", [&] {
      yaml.entry("path", "/healthz");
      yaml.entry("port", "health");
    });
    yaml.entry("periodSeconds", period);
    yaml.entry("timeoutSeconds", 10);
    yaml.entry("failureThreshold", failures);
  });
}

void write_probes(yaml_writer& yaml) {
  yaml.comment(
      "Whether ddprun itself answers, and nothing of the training: a worker that hangs, and one\n"
      "that fails, is ddprun's to judge. No readiness: the Service names pods that are not ready.");
  write_probe(yaml, "startupProbe", 2, 60);
  write_probe(yaml, "livenessProbe", 20, 6);
}

void write_container_restarts(yaml_writer& yaml) {
  yaml.comment(
      "Exit codes after which a fresh container in the same pod may do better: the nodes did not\n"
      "meet in time, or it was killed (out of memory).");
  yaml.entry("restartPolicy", "Never");
  yaml.group("restartPolicyRules", [&] {
    yaml.item([&] {
      yaml.entry("action", "Restart");
      yaml.group("exitCodes", [&] {
        yaml.entry("operator", "In");
        yaml.group("values", [&] {
          for (const int code : worth_a_container)
            yaml.item(code);
        });
      });
    });
  });
}

void write_mounts(yaml_writer& yaml, const manifest_request& request) {
  yaml.group("volumeMounts", [&] {
    yaml.item([&] {
      yaml.entry("name", "shared-memory");
      yaml.entry("mountPath", "/dev/shm");
    });
    if (request.claim.empty()) return;
    yaml.item([&] {
      yaml.entry("name", "data");
      yaml.entry("mountPath", request.claim_path);
    });
  });
}

void write_volumes(yaml_writer& yaml, const manifest_request& request) {
  yaml.group("volumes", [&] {
    yaml.comment(
        "Data loaders and NCCL need more than the 64 MB that a container has. It counts as memory\n"
        "of the pod.");
    yaml.item([&] {
      yaml.entry("name", "shared-memory");
      yaml.group("emptyDir", [&] {
        yaml.entry("medium", "Memory");
        yaml.entry("sizeLimit", request.shared_memory);
      });
    });
    if (request.claim.empty()) return;
    yaml.item([&] {
      yaml.entry("name", "data");
      yaml.group("persistentVolumeClaim", [&] { yaml.entry("claimName", request.claim); });
    });
  });
}

bool has_resources(const manifest_request& request) {
  return request.gpus > 0 || !request.processors.empty() || !request.memory.empty() ||
         !request.rdma_resource.empty();
}

void write_container(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape) {
  yaml.entry("name", shape.container);
  yaml.entry("image", request.image);
  if (shape.has_line) write_line(yaml, request, shape);
  write_environment(yaml, request, shape);
  write_ports(yaml);
  write_probes(yaml);
  if (request.restarts_containers) write_container_restarts(yaml);
  if (shape.has_line && has_resources(request))
    yaml.group("resources", [&] { write_resources(yaml, request); });
  if (!request.rdma_resource.empty()) {
    yaml.comment("InfiniBand pins memory.");
    yaml.group("securityContext", [&] {
      yaml.group("capabilities", [&] { yaml.group("add", [&] { yaml.item("IPC_LOCK"); }); });
    });
  }
  write_mounts(yaml, request);
}

}  // namespace

std::vector<std::string> pod_arguments(const manifest_request& request, const pod_shape& shape) {
  std::vector<std::string> words;
  const std::string most = std::to_string(request.nodes_max);
  if (request.is_elastic()) {
    words.push_back("--nnodes=" + std::to_string(request.nodes_min) + ":" + most);
  } else if (shape.tells_size) {
    words.push_back("--nnodes=" + most);
  }
  if (shape.tells_size) {
    words.push_back("--nproc-per-node=" + (request.workers_word.empty()
                                               ? std::to_string(request.workers)
                                               : request.workers_word));
  }
  words.push_back("--health-port=" + std::to_string(health_port));
  words.push_back("--drain-exit-code=" + std::to_string(drained_exit_code));
  words.insert(words.end(), request.options.begin(), request.options.end());
  words.push_back(request.program);
  words.insert(words.end(), request.arguments.begin(), request.arguments.end());
  return words;
}

void write_line(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape) {
  yaml.comment(
      "The container's first process: it hears SIGTERM, reaps what others leave, and lives on "
      "when\n"
      "a worker fails.");
  yaml.group("command", [&] { yaml.item("ddprun"); });
  yaml.group("args", [&] {
    for (const std::string& word : pod_arguments(request, shape))
      yaml.item(without_expansion(word));
  });
}

void write_resources(yaml_writer& yaml, const manifest_request& request) {
  const bool has_limits =
      request.gpus > 0 || !request.memory.empty() || !request.rdma_resource.empty();
  if (has_limits) {
    yaml.group("limits", [&] {
      if (request.gpus > 0) yaml.entry(request.gpu_resource, std::int64_t{request.gpus});
      if (!request.rdma_resource.empty()) yaml.entry(request.rdma_resource, 1);
      if (!request.memory.empty()) yaml.entry("memory", request.memory);
    });
  }
  if (request.processors.empty() && request.memory.empty()) return;
  yaml.group("requests", [&] {
    if (!request.processors.empty()) {
      yaml.comment("No limit: it would only throttle data loaders.");
      yaml.entry("cpu", request.processors);
    }
    if (!request.memory.empty()) yaml.entry("memory", request.memory);
  });
}

void write_pod(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape) {
  yaml.group("metadata", [&] {
    yaml.group("labels", [&] { yaml.entry("app.kubernetes.io/name", request.name); });
  });
  yaml.group("spec", [&] {
    if (!shape.subdomain.empty()) {
      yaml.comment("With it each pod has a name that the others can look up.");
      yaml.entry("subdomain", shape.subdomain);
    }
    if (!shape.restarts.empty()) yaml.entry("restartPolicy", shape.restarts);
    yaml.comment(
        "The time that a pod has when it is told to go: its workers save a snapshot\n"
        "(--shutdown-timeout), and it leaves the run in order.");
    yaml.entry("terminationGracePeriodSeconds", std::int64_t{request.grace.count()});
    yaml.comment(
        "Otherwise dozens of variables like TRAIN_PORT are set, which scripts may take for their\n"
        "own.");
    yaml.truth("enableServiceLinks", false);
    yaml.comment("Nothing here asks the API server.");
    yaml.truth("automountServiceAccountToken", false);
    yaml.group("containers", [&] { yaml.item([&] { write_container(yaml, request, shape); }); });
    write_volumes(yaml, request);
  });
}

}  // namespace ddprun::launcher::kubernetes
