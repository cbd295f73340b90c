// The status server of Kubeflow's Trainer, to which a pod of a TrainJob tells how far it has come
// (Trainer 2.3, proposal 2779): where it is, and one word to it.
//
// Thread rule: `find_trainer_server` pure. `post_status` blocks, for some seconds at most; all
// signals of its thread must be blocked.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::kubernetes {

struct trainer_server {
  std::string url;             // KUBEFLOW_TRAINER_SERVER_URL: ".../trainjobs/NAME/status"
  std::string authority_file;  // KUBEFLOW_TRAINER_SERVER_CA_CERT; empty: the system's
  std::string token_file;      // KUBEFLOW_TRAINER_SERVER_TOKEN; it is renewed: read for each word
};

// None where no such server is named, or DDPRUN_TRAINER_STATUS=off: for a script that tells itself.
std::optional<trainer_server> find_trainer_server(const environment_map& environment);

// Why it has not taken `body`, a JSON object; empty: it has.
std::string post_status(const trainer_server& server, const std::string& body);

}  // namespace ddprun::launcher::kubernetes
