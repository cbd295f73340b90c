// `ddprun manifest kubernetes` writes the manifest of a job whose pods run ddprun.
//
// Sources of the formats: batch/v1 of Kubernetes 1.31 and later, jobset.x-k8s.io/v1alpha2,
// trainer.kubeflow.org/v1alpha1 of Trainer 2.3, kubeflow.org/v1 of training-operator 1.9.
#pragma once

#include "launcher/hosts/kubernetes/manifest_request.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::kubernetes {

// One or more YAML documents. Pure.
std::string manifest_text(const manifest_request& request);

// `words` follow "manifest" on the command line. Writes to standard output. Returns the exit code:
// 0; 2 for a usage error. Main thread, before any other exists.
int write_manifest(const std::vector<std::string>& words);

}  // namespace ddprun::launcher::kubernetes
