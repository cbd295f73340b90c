#include "rendezvous/core/messages/started_job.hpp"

namespace ddprun {

namespace {

// "train_b.py, started 10:31 on node-a"; empty: nothing is known.
std::string described(const std::optional<started_job>& job) {
  if (!job) return {};
  std::string start;
  if (!job->started.empty()) start += " " + job->started;
  if (!job->node.empty()) start += " on " + job->node;
  std::string about = job->program;
  if (!start.empty()) about += (about.empty() ? "started" : ", started") + start;
  return about;
}

}  // namespace

bool is_same_job(const std::optional<started_job>& one, const std::optional<started_job>& other) {
  if (!one || !other || one->digest.empty() || other->digest.empty()) return true;
  return one->digest == other->digest;
}

std::string as_another(const std::optional<started_job>& job) {
  const std::string about = described(job);
  return "another job" + (about.empty() ? "" : " (" + about + ")");
}

std::string where_another(const std::optional<started_job>& newcomer,
                          const std::optional<started_job>& here) {
  const std::string about = described(here);
  if (is_same_job(newcomer, here) || about.empty()) return "if this is another job";
  const bool is_named = !newcomer->program.empty() && newcomer->program != here->program;
  return "if " + (is_named ? newcomer->program : "this") +
         " is a different job from the one here (" + about + ")";
}

}  // namespace ddprun
