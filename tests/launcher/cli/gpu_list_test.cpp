#include "launcher/cli/gpu_list.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using numbers = std::vector<std::uint32_t>;

std::string list_error(const std::string& value) {
  const auto read = read_gpu_list("--gpus=" + value, value);
  REQUIRE(read.has_error());
  return read.error().text;
}

environment_map shown(const std::string& gpus, environment_map variables, std::uint32_t present) {
  CHECK_FALSE(show_gpus(variables, *read_gpu_list("", gpus), present));
  return variables;
}

std::string refused_as(const std::string& gpus, environment_map variables, std::uint32_t present) {
  const auto wrong = show_gpus(variables, *read_gpu_list("", gpus), present);
  return wrong ? wrong->text : "";
}

}  // namespace

TEST_CASE("GPUs are named by numbers and ranges, in any order") {
  CHECK(*read_gpu_list("", "2,4,7") == numbers{2, 4, 7});
  CHECK(*read_gpu_list("", "0-3,6") == numbers{0, 1, 2, 3, 6});
  CHECK(*read_gpu_list("", "7, 2") == numbers{7, 2});
  CHECK(*read_gpu_list("", "5-5") == numbers{5});
}

TEST_CASE("a list of GPUs that cannot be meant is refused") {
  CHECK(list_error("2,3,2") == "--gpus=2,3,2: GPU 2 is given twice; name each once");
  CHECK(list_error("0-3,2") == "--gpus=0-3,2: GPU 2 is given twice; name each once");
  CHECK(list_error("3-1") == "--gpus=3-1: 3-1 ends before it begins; write 1-3");
  for (const char* value : {"", "a", "1,", "1,,2", "-1", "1-", "0-99999999"})
    CHECK(list_error(value).find("write the numbers of GPUs as 2,4,7 or 0-3") != std::string::npos);
}

TEST_CASE("the workers' list counts within the one that ddprun has") {
  const auto cuda = [](const char* devices) {
    return environment_map{{"CUDA_VISIBLE_DEVICES", devices}};
  };
  CHECK(shown("2,4", {}, 8) == cuda("2,4"));
  CHECK(shown("2,4", {}, 0) == cuda("2,4"));
  CHECK(shown("0,2", cuda("3,5,6"), 8) == cuda("3,6"));
  CHECK(shown("1", cuda("GPU-8f2, MIG-3a"), 8) == cuda("MIG-3a"));
  CHECK(shown("1", {{"HIP_VISIBLE_DEVICES", "4,5"}}, 8) ==
        environment_map{{"HIP_VISIBLE_DEVICES", "5"}, {"CUDA_VISIBLE_DEVICES", "5"}});
}

TEST_CASE("a GPU that this node does not have is refused where that is known") {
  CHECK(refused_as("0,8", {}, 8) ==
        "--gpus=0,8: there is no GPU 8 on this node: 8 GPUs are visible, 0 to 7");
  CHECK(refused_as("1", {}, 1) ==
        "--gpus=1: there is no GPU 1 on this node: the only one is GPU 0");
  CHECK(refused_as("2", {{"CUDA_VISIBLE_DEVICES", "4,6"}}, 8) ==
        "--gpus=2: there is no GPU 2 in CUDA_VISIBLE_DEVICES=4,6: 2 GPUs are visible, 0 to 1");
  CHECK(refused_as("0", {{"CUDA_VISIBLE_DEVICES", ""}}, 8) ==
        "--gpus=0: there is no GPU 0 in CUDA_VISIBLE_DEVICES=: no GPU is visible");
}
