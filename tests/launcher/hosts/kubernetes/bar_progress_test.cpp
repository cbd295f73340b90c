#include "launcher/hosts/kubernetes/bar_progress.hpp"

#include "launcher/hosts/kubernetes/trainer_status.hpp"
#include "tests/support/catch.hpp"

#include <string>

namespace ddprun::launcher::kubernetes {
namespace {

// Returns "45 %, 80 s".
std::string read(std::string_view words) {
  const auto found = find_bar(words);
  if (!found) return "nothing";
  return std::to_string(found->percent) + " %" +
         (found->seconds ? ", " + std::to_string(*found->seconds) + " s" : "");
}

}  // namespace

TEST_CASE("bars that scripts draw") {
  CHECK(read(" 45%|####5     | 450/1000 [01:00<01:20,  7.5it/s]") == "45 %, 80 s");
  CHECK(read("Training: 100%|##########| 8/8 [2:00:00<1:02:03, 7.5it/s]") == "100 %, 3723 s");
  CHECK(read("  0%|          | 0/1000 [00:00<?, ?it/s]") == "0 %");
  CHECK(read("Epoch 3/10:  50%|#####     | 5/10 [01:00<01:00,  7.5it/s]") == "25 %");
  CHECK(read("epoch 3 [=============>................]  45 % | 1210 samples/s | 3 s left | loss "
             "0.4") == "45 %, 3 s");
  // The newest bar counts, even if other lines follow.
  CHECK(read(" 10%|#         | 1/10\n 20%|##        | 2/10\nsaved a snapshot\n") == "20 %");
}

TEST_CASE("other percentages are no progress") {
  for (const char* const words : {"", "%", "%|", "accuracy 93%", "GPU at 98 % | 71 C", "140%|##|",
                                  "x%|", "99999999999%|", "Epoch 0/0:  50%", "[<%|"})
    CHECK(read(words) == "nothing");
  // An impossible epoch is ignored.
  CHECK(read("Epoch 7/3: 50%|###  |") == "50 %");
  CHECK(read("Epoch /: 50%|###  |") == "50 %");
  CHECK(read("Epoch 1/0: 50%|###  | [1:x<y:z") == "50 %");
}

TEST_CASE("what is told is what the server takes") {
  CHECK(trainer_status_json(bar_progress{45, 80}, 2, 1, 1'764'064'800) ==
        R"({"trainerStatus":{"progressPercentage":45,"estimatedRemainingSeconds":80,"metrics":)"
        R"([{"name":"ddprun_round","value":"2"},{"name":"ddprun_restarts","value":"1"}],)"
        R"("lastUpdatedTime":"2025-11-25T10:00:00Z"}})");
  CHECK(trainer_status_json(std::nullopt, 1, 0, 0) ==
        R"({"trainerStatus":{"metrics":[{"name":"ddprun_round","value":"1"},)"
        R"({"name":"ddprun_restarts","value":"0"}],"lastUpdatedTime":"1970-01-01T00:00:00Z"}})");
}

TEST_CASE("where the server is, as the Trainer says it") {
  CHECK_FALSE(find_trainer_server({}));
  environment_map environment = {{"KUBEFLOW_TRAINER_SERVER_URL", "https://trainer:1/status"},
                                 {"KUBEFLOW_TRAINER_SERVER_CA_CERT", "/ca.crt"},
                                 {"KUBEFLOW_TRAINER_SERVER_TOKEN", "/token"}};
  const auto found = find_trainer_server(environment);
  REQUIRE(found);
  CHECK(found->url == "https://trainer:1/status");
  CHECK(found->authority_file == "/ca.crt");
  CHECK(found->token_file == "/token");
  environment["DDPRUN_TRAINER_STATUS"] = "off";
  CHECK_FALSE(find_trainer_server(environment));
}

TEST_CASE("an address that is none is named") {
  for (const char* const url :
       {"ftp://trainer/status", "trainer/status", "http://", "http://a:b/", "http://a:99999/"})
    CHECK(post_status({url, "", ""}, "{}").find("not an http or https URL") != std::string::npos);
  CHECK(post_status({"http://a/", "", "/nonexistent/token"}, "{}") ==
        "/nonexistent/token: the token cannot be read");
}

}  // namespace ddprun::launcher::kubernetes
