#include "launcher/agent/own_job.hpp"

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <set>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

launch_options options_of(const std::string& program, std::vector<std::string> arguments) {
  launch_options options;
  options.run_id = "none";
  options.program = program;
  options.arguments = std::move(arguments);
  return options;
}

std::string digest(const launch_options& options) {
  return own_job(options, "node-a", 0).digest;
}

}  // namespace

TEST_CASE("the digest is that of program and arguments, word by word") {
  launch_options module = options_of("train", {"a", "b"});
  module.module = true;
  launch_options program = options_of("train", {"a", "b"});
  program.no_python = true;
  const std::set<std::string> digests = {digest(options_of("train", {"a", "b"})),
                                         digest(options_of("train", {"a b"})),
                                         digest(options_of("train", {"b", "a"})),
                                         digest(options_of("train", {"a", "b", ""})),
                                         digest(options_of("train a", {"b"})),
                                         digest(options_of("./train", {"a", "b"})),
                                         digest(module),
                                         digest(program)};
  CHECK(digests.size() == 8);
  CHECK(digest(options_of("train", {"a", "b"})) == digest(options_of("train", {"a", "b"})));
}

TEST_CASE("a job is the same for every version of ddprun") {
  CHECK(digest(options_of("train.py", {"--lr", "0.1"})) == "fe94f6d63bac2554-34318b30b0c99291");
}

TEST_CASE("a run that a person has given an id has no digest, and words all the same") {
  launch_options options = options_of("/home/ann/train.py", {});
  options.run_id = "job1";
  const started_job job = own_job(options, "node-a", 0);
  CHECK(job.digest.empty());
  CHECK(job.program == "train.py");
  CHECK(job.node == "node-a");
  CHECK(job.started.size() == 5);
  hello words;
  say_job(words, job);
  CHECK(words.script == "train.py");
  CHECK(words.job == job);
}

TEST_CASE("another job is said by its program, when and where; what is not known is left out") {
  CHECK(as_another(started_job{"b2", "train_b.py", "10:31", "node-a"}) ==
        "another job (train_b.py, started 10:31 on node-a)");
  CHECK(as_another(started_job{"b2", "train_b.py", "", ""}) == "another job (train_b.py)");
  CHECK(as_another(started_job{"b2", "", "10:31", ""}) == "another job (started 10:31)");
  CHECK(as_another(std::nullopt) == "another job");
}
