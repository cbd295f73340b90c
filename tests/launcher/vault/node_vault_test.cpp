// A node without --vault, beside nodes with or without one: it has no disk, and its store does not
// answer.
#include "launcher/vault/node_vault.hpp"

#include "launcher/vault/leader_mark.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>

#include <string>
#include <vector>

namespace ddprun::launcher::vault {
namespace {

struct node_without {
  node_vault::wiring given() {
    node_vault::wiring with;
    with.has_other_nodes = true;
    with.store = store_mode::worker;  // there is nobody yet who could be told
    with.say = [this](note_level, const std::string& text) { said.push_back(text); };
    with.own_address = [this](const std::string& store_address) {
      asked.push_back(store_address);
      return std::string("127.0.0.1");
    };
    return with;
  }
  // True: its workers are started at once.
  bool starts(bool leader_has_vault) {
    core::start_workers round;
    round.round = ++newest;
    if (leader_has_vault) round.assignment.leader_data = with_mark({});
    bool is_ready = false;
    vault.prepare(round, "127.0.0.1", [&is_ready] { is_ready = true; });
    return is_ready;
  }

  round_number newest = 0;
  std::vector<std::string> said;
  std::vector<std::string> asked;
  boost::asio::io_context io;
  node_vault vault{io.get_executor(), given()};
};

}  // namespace

TEST_CASE("in a job without vaults a node says nothing of them, and its workers wait for nothing") {
  node_without here;
  CHECK(here.starts(false));
  CHECK(here.vault.folder().empty());
  CHECK(here.said.empty());
  CHECK(here.asked.empty());
  CHECK_FALSE(here.vault.stop_preparing(1));
  CHECK(here.vault.given_by_leader({}) == leader_data());
  bool is_done = false;
  here.vault.save_now();
  here.vault.finish(true, [&is_done] { is_done = true; });
  CHECK(is_done);
}

TEST_CASE("a node without a vault says once that others have one, and holds up no worker") {
  node_without here;
  CHECK(here.starts(true));
  CHECK(here.starts(true));
  REQUIRE(here.said.size() == 1);
  CHECK(here.said[0] ==
        "vault: other nodes of this job have one; this node has no --vault, and its workers get no "
        "DDPRUN_VAULT");
  CHECK(here.asked == std::vector<std::string>{"127.0.0.1", "127.0.0.1"});
}

}  // namespace ddprun::launcher::vault
