#include "worker/store_tree.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/client_of.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using namespace std::chrono_literals;

std::string joined(std::string_view one, std::string_view other) {
  return std::string(one) + std::string(other);
}

// Runs each rank on a thread with a connection of its own; returns each result, or "error: ...".
std::vector<std::string> on_all(
    std::uint32_t world_size,
    const std::function<std::string(std::uint32_t rank, store_tree& tree)>& work) {
  served_store store;
  std::vector<store_client> clients;
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    clients.push_back(client_of(store));
  std::vector<std::string> said(world_size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      store_tree tree(clients[rank], "tree", rank, world_size);
      said[rank] = work(rank, tree);
    });
  }
  for (auto& thread : threads)
    thread.join();
  // Of completed turns only the last one may leave keys behind.
  const auto keys = clients.front().with_prefix("tree").list_keys(patience);
  REQUIRE(keys.has_value());
  CHECK(keys->size() <= 2 * world_size);
  return said;
}

std::string told(const result<std::string>& answer, const store_tree& tree) {
  return answer ? *answer : "error: " + tree.problem();
}

}  // namespace

TEST_CASE("all ranks get the joined texts of all", "[store_tree]") {
  const std::uint32_t world_size = GENERATE(1u, 2u, 17u, 40u);
  const auto said = on_all(world_size, [&](std::uint32_t rank, store_tree& tree) {
    std::string all;
    for (const char* turn : {"a", "b", "c"}) {
      const std::string own = turn + std::to_string(rank) + " ";
      const auto answer = tree.join(own, joined, patience);
      if (!answer) return told(answer, tree);
      all += *answer;
    }
    return all;
  });
  for (const auto& each : said)
    CHECK(each == said[0]);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    INFO(said[0]);
    CHECK(said[0].find("b" + std::to_string(rank) + " ") != said[0].npos);
  }
}

// A rank dies at the root, in the middle, or as a leaf, before or after it has left its text. No
// rank may return a partial result or wait beyond the deadline.
TEST_CASE("a dead rank is reported by the deadline", "[store_tree]") {
  const std::uint32_t dead = GENERATE(0u, 1u, 19u);
  constexpr std::uint32_t world_size = 20;  // 1 has 17 to 19 below it
  const auto said_by = [&](std::chrono::milliseconds limit) {
    return on_all(world_size, [&](std::uint32_t rank, store_tree& tree) -> std::string {
      const auto first = tree.join("1", joined, patience);
      if (!first || first->size() != world_size) return told(first, tree);
      if (rank == dead) return "dead";
      return told(tree.join("1", joined, limit), tree);
    });
  };
  // Where the machine has no time for so many ranks some come to no question by their deadline.
  const auto is_cut_off = [](const std::string& text) {
    return text.starts_with("error: ") && text.find("still waiting") == std::string::npos;
  };
  std::chrono::milliseconds limit = 300ms;
  auto said = said_by(limit);
  while (std::any_of(said.begin(), said.end(), is_cut_off) && (limit *= 3) < patience)
    said = said_by(limit);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    INFO(rank << ": " << said[rank]);
    if (rank == dead) {
      CHECK(said[rank] == "dead");
    } else {
      CHECK(said[rank].find("still waiting") != std::string::npos);
    }
  }
  if (dead == 19) CHECK(said[1].find("no word from rank 19, or from") != std::string::npos);
  if (dead == 1) CHECK(said[0].find("no word from rank 1, or from") != std::string::npos);
}

TEST_CASE("a rank that waits in vain says for how long in all", "[store_tree]") {
  served_store store;
  std::string said;
  // It looks each second whether another one has given up. Where this machine has slept before it
  // began to wait, it is tried again.
  for (const duration limit : {duration(1300ms), duration(6s)}) {
    store_tree tree(client_of(store), "tree" + to_text(limit), 0, 2);
    CHECK(tree.join("mine", joined, limit).error() == errc::timed_out);
    said = tree.problem();
    if (said.find(" ms") == said.npos) break;
  }
  INFO(said);
  CHECK(said.starts_with("no word from rank 1, or from those that tell it, still waiting after "));
  CHECK(said.ends_with(" s (a peer is gone or late)"));
  CHECK(said.find(" ms") == said.npos);
}

TEST_CASE("the reason of a rank that gives up reaches all others", "[store_tree]") {
  constexpr std::uint32_t world_size = 20;
  const auto said = on_all(world_size, [&](std::uint32_t rank, store_tree& tree) -> std::string {
    const auto first = tree.join("1", joined, patience);
    if (rank != 18) return told(tree.join("1", joined, patience), tree);
    tree.give_up("rank 18 has lost rank 3", patience);
    return "given up";
  });
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    CHECK(said[rank] == (rank == 18 ? "given up" : "error: rank 18 has lost rank 3"));
}

TEST_CASE("a store that is gone ends a turn", "[store_tree]") {
  auto store = std::make_unique<served_store>();
  store_tree tree(client_of(*store), "tree", 0, 2);
  store.reset();
  CHECK(!tree.join("1", joined, patience));
  CHECK(!tree.problem().empty());
}

}  // namespace ddprun::tests
