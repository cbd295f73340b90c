#include "launcher/hosts/ssh/exported.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher::ssh;

namespace {

const environment_map own_variables = {{"PATH", "/bin"},           {"HOME", "/home/me"},
                                       {"NCCL_DEBUG", "INFO"},     {"CUDA_VISIBLE_DEVICES", "0"},
                                       {"TOKEN", "hush"},          {"PET_NNODES", "2"},
                                       {"CONDA_PREFIX", "/conda"}, {"RANK", "3"}};

environment_map exported_with(const std::vector<std::string>& asked) {
  return *exported_variables(own_variables, asked);
}

std::string refused_variable(const std::string& asked) {
  const auto read = exported_variables(own_variables, {asked});
  return read ? "" : read.error().text;
}

}  // namespace

TEST_CASE("what programs look for goes to other hosts, and what belongs to this one does not") {
  CHECK(exported_with({}) ==
        environment_map{{"PATH", "/bin"}, {"NCCL_DEBUG", "INFO"}, {"CONDA_PREFIX", "/conda"}});
  for (const char* const name : {"LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS",
                                 "HF_HOME", "TORCH_LOGS", "LC_ALL", "TZ"})
    CHECK(is_exported(name));
  for (const char* const name :
       {"TMPDIR", "SLURM_JOB_ID", "MASTER_ADDR", "WORLD_SIZE", "LOCAL_RANK", "SSH_AUTH_SOCK",
        "XDG_RUNTIME_DIR", "TZDATA", "PET_NNODES"})
    CHECK_FALSE(is_exported(name));
}

TEST_CASE("-x takes any variable, with a value or without") {
  CHECK(exported_with({"TOKEN"}).at("TOKEN") == "hush");
  CHECK(exported_with({"NEW=a=b,c"}).at("NEW") == "a=b,c");
  CHECK(exported_with({"EMPTY="}).at("EMPTY").empty());
  CHECK(exported_with({"PATH=/other"}).at("PATH") == "/other");
  const environment_map several = exported_with({"TOKEN,RANK,NEW=1,2"});
  CHECK(several.at("TOKEN") == "hush");
  CHECK(several.at("RANK") == "3");
  CHECK(several.at("NEW") == "1,2");
}

TEST_CASE("a variable that is not there is refused") {
  CHECK(refused_variable("NONE") ==
        "-x NONE: there is no such variable here; set it, or write NONE=VALUE");
  CHECK(refused_variable("=1") == "-x =1: write NAME or NAME=VALUE");
  CHECK(refused_variable("A B") == "-x A B: write NAME or NAME=VALUE");
}
