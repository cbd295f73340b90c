// The messages of the worker library about a missing peer, taken from the library itself, are read
// as secondary failures.
#include "launcher/report/failure_text.hpp"
#include "rendezvous/base/lost_peer.hpp"
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_store.hpp"
#include "tests/worker/client_of.hpp"
#include "worker/snapshot/rank_exchange.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;
using ddprun::tests::client_of;
using ddprun::tests::fake_store;
using ddprun::tests::patience;
using ddprun::tests::served_store;
using ddprun::worker::rank_exchange;
using ddprun::worker::store_client;

namespace {

// The output of a program that ends because of it.
bool reads_as_effect(const std::string& problem) {
  INFO(problem);
  CHECK_FALSE(problem.empty());
  cause end;
  end.code = 1;
  end.tail = "epoch 3: loss 0.12\ntrain: " + problem + "\n";
  const failure_text words = read_failure(end);
  CHECK((words.known != nullptr && words.known->name.starts_with("worker-")) == words.is_secondary);
  return words.is_secondary;
}

std::string problem_of(store_client store, duration limit) {
  CHECK(store.wait("never set", limit));
  return store.problem();
}

}  // namespace

TEST_CASE("a store that is gone, silent or without the key is a lost peer") {
  SECTION("no server answers") {
    std::string problem;
    CHECK_FALSE(store_client::connect("127.0.0.1", 1, 50ms, problem, "rank 0 of 2").has_value());
    CHECK(reads_as_effect(problem));
  }
  SECTION("no rank sets the key") {
    served_store store;
    CHECK(reads_as_effect(problem_of(client_of(store, "rank 0 of 2"), 30ms)));
  }
  SECTION("the time is over before it is asked") {
    served_store store;
    CHECK(reads_as_effect(problem_of(client_of(store, "rank 0 of 2"), 0ms)));
  }
  SECTION("it closes the connection") {
    fake_store store([](fake_store::peer& client) {
      if (client.greet()) client.hear(1);
    });
    CHECK(reads_as_effect(problem_of(client_of(store, "rank 0 of 2"), patience)));
  }
  SECTION("it resets the connection") {
    fake_store store([](fake_store::peer& client) {
      if (client.greet()) client.hear(1);
      client.reset_at_the_end();
    });
    CHECK(reads_as_effect(problem_of(client_of(store, "rank 0 of 2"), patience)));
  }
}

TEST_CASE("what listens and is no store is a cause, and so is a question that is too long") {
  fake_store stranger([](fake_store::peer& client) { client.say("SSH-2.0-OpenSSH_9.2\r\n"); });
  std::string problem;
  CHECK_FALSE(
      store_client::connect("127.0.0.1", stranger.port(), patience, problem, "rank 0").has_value());
  CHECK_FALSE(reads_as_effect(problem));
  served_store store;
  auto client = client_of(store, "rank 0 of 2");
  const std::string huge(100'000'000, 'x');
  CHECK(client.set("key", huge, patience) == errc::message_too_long);
  CHECK_FALSE(reads_as_effect(client.problem()));
}

TEST_CASE("ranks that say nothing of a snapshot are lost peers") {
  served_store store;
  const auto client = client_of(store, "rank 0 of 2");
  rank_exchange ranks(client, "save", 0, 2, 50ms);
  REQUIRE_FALSE(ranks.report("save/1", "written"));
  CHECK_FALSE(ranks.reports("save/1").has_value());
  CHECK(ranks.problem().find("no word from rank 1") != std::string::npos);
  CHECK(reads_as_effect(ranks.problem()));
  CHECK_FALSE(ranks.announcement("save/2").has_value());
  CHECK(reads_as_effect(ranks.problem()));
}
