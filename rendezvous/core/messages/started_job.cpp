#include "rendezvous/core/messages/started_job.hpp"

namespace ddprun {

bool is_same_job(const std::optional<started_job>& one, const std::optional<started_job>& other) {
  if (!one || !other || one->digest.empty() || other->digest.empty()) return true;
  return one->digest == other->digest;
}

std::string as_another(const std::optional<started_job>& job) {
  std::string text = "another job";
  if (!job) return text;
  std::string start;
  if (!job->started.empty()) start += " " + job->started;
  if (!job->node.empty()) start += " on " + job->node;
  std::string about = job->program;
  if (!start.empty()) about += (about.empty() ? "started" : ", started") + start;
  return about.empty() ? text : text + " (" + about + ")";
}

}  // namespace ddprun
