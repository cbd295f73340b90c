#include "worker/store_tree.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/client_of.hpp"

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

// Each rank on a thread, with a connection of its own; what each has come to, or "error: ...".
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
  // Of turns that are over but the last one nothing is left.
  const auto keys = clients.front().with_prefix("tree").list_keys(patience);
  REQUIRE(keys.has_value());
  CHECK(keys->size() <= 2 * world_size);
  return said;
}

std::string told(const result<std::string>& answer, const store_tree& tree) {
  return answer ? *answer : "error: " + tree.problem();
}

}  // namespace

TEST_CASE("all ranks hear what all have said", "[store_tree]") {
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

// Each rank of the tree's shape dies once: at its root, in the middle, as a leaf; before it has
// said what it has, or after. Nobody takes a part for the whole, or waits beyond the deadline.
TEST_CASE("a rank that dies is heard of by the deadline", "[store_tree]") {
  const std::uint32_t dead = GENERATE(0u, 1u, 19u);
  constexpr std::uint32_t world_size = 20;  // 1 has 17 to 19 below it
  const auto said = on_all(world_size, [&](std::uint32_t rank, store_tree& tree) -> std::string {
    const auto first = tree.join("1", joined, patience);
    if (!first || first->size() != world_size) return told(first, tree);
    if (rank == dead) return "dead";
    return told(tree.join("1", joined, 300ms), tree);
  });
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

TEST_CASE("what a rank says that gives up is heard by all", "[store_tree]") {
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
