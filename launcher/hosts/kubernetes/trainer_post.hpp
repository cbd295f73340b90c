// The status server of Kubeflow's Trainer, to which a pod of a TrainJob reports its progress
// (Trainer 2.3, proposal 2779): finds it, and posts one status.
//
// Thread rule: `find_trainer_server` is pure. `post_status` blocks, for some seconds at most; its
// thread must block all signals.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::kubernetes {

struct trainer_server {
  std::string url;             // KUBEFLOW_TRAINER_SERVER_URL: ".../trainjobs/NAME/status"
  std::string authority_file;  // KUBEFLOW_TRAINER_SERVER_CA_CERT; empty: the system's
  std::string token_file;      // KUBEFLOW_TRAINER_SERVER_TOKEN; renewed, so read for each post
};

// Empty if no server is named, or with DDPRUN_TRAINER_STATUS=off, for scripts that report
// themselves.
std::optional<trainer_server> find_trainer_server(const environment_map& environment);

// Posts `body`, a JSON object; returns the problem; empty: accepted.
std::string post_status(const trainer_server& server, const std::string& body);

}  // namespace ddprun::launcher::kubernetes
