// The ranks' messages through the job store, also with a store that another program has written to.
#include "worker/snapshot/rank_exchange.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <string>
#include <vector>

namespace ddprun::tests {
namespace {

using worker::rank_exchange;

constexpr const char* garbage = "not what a rank tells";

}  // namespace

TEST_CASE("rank 0 hears what each rank has told, in the order of ranks", "[snapshot]") {
  served_store store;
  const auto client = client_of(store);
  rank_exchange first(client, "test", 0, 2, patience), second(client, "test", 1, 2, patience);
  REQUIRE_FALSE(second.report("topic", "of rank 1"));
  REQUIRE_FALSE(first.report("topic", ""));
  const auto heard = first.reports("topic");
  REQUIRE(heard.has_value());
  CHECK(*heard == std::vector<std::string>{"", "of rank 1"});
}

TEST_CASE("garbled reports are the store's fault, and no snapshot's", "[snapshot]") {
  served_store store;
  auto client = client_of(store);
  rank_exchange first(client, "test", 0, 2, patience), second(client, "test", 1, 2, patience);
  REQUIRE_FALSE(client.set("test/topic/reported", garbage, patience));
  REQUIRE_FALSE(second.report("topic", "of rank 1"));
  REQUIRE_FALSE(first.report("topic", "of rank 0"));
  const auto heard = first.reports("topic");
  REQUIRE_FALSE(heard.has_value());
  CHECK(heard.error() == errc::malformed_message);
  CHECK(first.problem() ==
        "the job store has garbled what the ranks have told of topic (does another program write "
        "to it?); start the job again");
}

TEST_CASE("where the store garbles what ranks tell of a snapshot, it is not skipped",
          "[snapshot]") {
  job_under_test test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save(ranks, 10) == all(2));
    CHECK(save(ranks, 20) == all(2));
  }
  auto client = client_of(test.store);
  REQUIRE_FALSE(client.set("ddprun/snapshots/77/2/1/resume/0/reported", garbage, patience));
  const auto refused = test.open(2, 2);
  for (const auto& each : refused) {
    CHECK(each.job == nullptr);
    CHECK(each.error == errc::malformed_message);
    CHECK(each.problem.find("not all ranks have read their part of snapshot " + test.folder +
                            "/snapshot-000001-000020: the job store has garbled") !=
          std::string::npos);
    CHECK(each.problem.find("move it away") == std::string::npos);
  }
  CHECK(test.messages.text() == "");
  const auto next = test.open(3, 2);
  require_open(next);
  for (const auto& each : next) {
    REQUIRE(each.job->resumed().has_value());
    CHECK(each.job->resumed()->info.step == 20);
  }
}

}  // namespace ddprun::tests
