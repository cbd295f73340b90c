// Tests the end of a group, and the sockets that it costs.
//
// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "rendezvous/base/lost_peer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/worker/torch/fake_gpu.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/process_group.hpp"

#include <ATen/ops/ones.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using worker::environment;
using worker::process_group;
using worker::process_group_options;

std::size_t sockets() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each.path(), gone);
    if (target.string().starts_with("socket:")) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a group that closes waits for its GPU and shuts its backends down", "[torch]") {
  const auto said = run_ranks(2, [](const environment& here) -> std::string {
    auto group = process_group::join(here, with_fake_gpu());
    auto part = group.subgroup({0});
    auto other = group.subgroup({1, 0});
    other->close();
    asked() += "closed;";
    group.close();
    if (part) {
      try {
        part->barrier();
      } catch (const worker::process_group_error& error) {
        asked() += std::string(error.what()).find("the group is closed") != std::string::npos
                       ? "part is closed"
                       : error.what();
      }
    }
    return asked();
  });
  REQUIRE(said[0] ==
          "synchronize 0;shutdown of 2;closed;synchronize 0;shutdown of 1;shutdown of 2;"
          "part is closed");
  REQUIRE(said[1] == "synchronize 0;shutdown of 2;closed;synchronize 0;shutdown of 2;");
}

// The others may still be in a collective with it, and would get what it has so far.
TEST_CASE("an exception that leaves a group behind aborts nothing on its GPU", "[torch]") {
  const auto said = run_ranks(2, [](const environment& here) -> std::string {
    try {
      auto group = process_group::join(here, with_fake_gpu());
      const auto part = group.subgroup({1, 0});
      throw std::runtime_error("the program's own");
    } catch (const std::runtime_error& error) {
      return asked() + error.what();
    }
  });
  REQUIRE(said == std::vector<std::string>(2, "the program's own"));
}

TEST_CASE("a group that is shut down is not aborted, one that was let go of is", "[torch]") {
  const auto said = run_ranks(3, [](const environment& here) -> std::string {
    auto group = process_group::join(here, with_fake_gpu());
    auto part = group.subgroup({0, 1});
    const auto abort = group.abort_on_gpus();
    if (part) part->close();
    asked().clear();
    abort();
    group.let_go();
    abort();
    return asked();
  });
  REQUIRE(said == std::vector<std::string>(3, "abort of 3;abort of 3;"));
}

// How many others a rank is connected with after each of these, and what it has come to.
std::string talk(const environment& here) {
  const std::size_t before = sockets();
  std::string counts;
  const auto count = [&](const char* what) {
    counts += std::string(" ") + what + " " + std::to_string(sockets() - before);
  };
  auto group = process_group::join(here);
  count("join");
  const bool one = group.any(here.rank == 7);
  const bool none = group.any(false);
  count("any");
  group.ask({here.rank == 3, false, false, false});
  const bool answer = group.answer()[0];
  count("ask");
  torch::nn::Linear model(4, 1);
  worker::distributed_data_parallel parallel(group, *model);
  for (int step = 0; step < 2; ++step) {
    parallel.zero_grad();
    parallel.backward(parallel.forward(model, torch::full({2, 4}, 1.0 + here.rank)).sum());
  }
  count("ddp");
  // The mean of 2 * (1 + rank) over ranks 0 to 23.
  const bool is_averaged = torch::allclose(model->weight.grad(), torch::full({1, 4}, 25.0));
  group.barrier();
  return std::to_string(one) + std::to_string(none) + std::to_string(answer) +
         std::to_string(is_averaged) + counts;
}

// The store, where others find this rank, and those at distances 1, 2, 4, 8, 16 on both sides.
constexpr std::size_t few = 20;
constexpr std::uint32_t many_ranks = 24;

std::size_t count_after(const std::string& what, const std::string& said) {
  const auto at = said.find(" " + what + " ");
  REQUIRE(at != said.npos);
  return std::stoul(said.substr(at + what.size() + 2));
}

TEST_CASE("a rank is connected only to the ranks that it communicates with", "[torch]") {
  for (const auto& each : run_ranks(many_ranks, talk)) {
    INFO(each);
    REQUIRE(each.starts_with("1011 "));
    for (const char* const what : {"join", "any", "ask", "ddp"})
      REQUIRE(count_after(what, each) < few);
  }
}

TEST_CASE("without lazy connections a rank is connected with all at once", "[torch]") {
  const auto said = run_ranks(many_ranks, [](const environment& here) {
    ::setenv("TORCH_GLOO_LAZY_INIT", "0", 1);
    return talk(here);
  });
  for (const auto& each : said) {
    INFO(each);
    REQUIRE(each.starts_with("1011 "));
    REQUIRE(count_after("join", each) >= many_ranks - 1);
  }
}

// The options of a group that has only GPUs.
process_group_options without_gloo() {
  auto options = with_fake_gpu();
  options.gloo = false;
  return options;
}

TEST_CASE("a group without Gloo has no sockets to its ranks, and gives the same results",
          "[torch]") {
  constexpr std::uint32_t ranks = 24;
  const auto said = run_ranks(ranks, [](const environment& here) -> std::string {
    const std::size_t before = sockets();
    auto group = process_group::join(here, without_gloo());
    const bool one = group.any(here.rank == 7);
    const bool none = group.any(false);
    group.ask({here.rank == 3, false, here.rank == 23, false});
    const auto flags = group.answer();
    group.ask({});
    group.barrier();  // while a question is open
    const auto no_flags = group.answer();
    double numbers[] = {1, 0.1 * here.rank};
    group.sum(numbers);
    const auto told = group.broadcast_bytes(here.rank == 20 ? std::string("a\0b", 3) : "mine", 20);
    const auto nothing = group.broadcast_bytes("", 0);
    auto part = group.subgroup({5, 2, 9});
    const bool in_part = part && part->any(part->rank() == 2);
    const std::size_t now = sockets() - before - (part ? 1 : 0);
    std::string refused;
    try {
      auto tensor = at::ones({1});
      group.all_reduce_sum(tensor);
    } catch (const worker::process_group_error& error) {
      refused =
          std::string(error.what()).find("cpu") != std::string::npos ? "refused" : error.what();
    }
    group.close();
    std::string text;
    for (const bool each :
         {one, none, flags[0], flags[1], flags[2], flags[3], no_flags[0], in_part})
      text += each ? '1' : '0';
    return text + " " + std::to_string(numbers[0]) + " " + std::to_string(numbers[1]) + " " +
           std::to_string(told == std::string("a\0b", 3) && nothing.empty()) + " " + refused + " " +
           std::to_string(now) + " " + asked();
  });
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    INFO(rank << ": " << said[rank]);
    const bool is_in_part = rank == 5 || rank == 2 || rank == 9;
    // One socket is LibTorch's connection to the store, the other the tree's.
    REQUIRE(said[rank] == std::string("1010100") + (is_in_part ? "1" : "0") +
                              " 24.000000 27.600000 1 refused 2 synchronize 0;" +
                              (is_in_part ? "shutdown of 3;" : "") + "shutdown of 24;");
  }
}

// A rank dies at the root of the tree or as a leaf, in each of the calls.
TEST_CASE("without Gloo a dead rank is named by the deadline", "[torch]") {
  const std::uint32_t dead = GENERATE(0u, 4u);
  const int phase = GENERATE(0, 1, 2, 3, 4, 5);
  const auto said_within = [&](std::chrono::milliseconds limit) {
    return run_ranks(5, [&](const environment& here) -> std::string {
      auto options = without_gloo();
      options.join_timeout = limit;
      options.collective_timeout = limit;
      const auto dies_in = [&](int at) {
        if (phase == at && here.rank == dead) ::_exit(7);
      };
      dies_in(0);
      auto group = process_group::join(here, options);
      dies_in(1);
      if (!group.any(here.rank == 1)) return "wrong";
      group.ask({here.rank == 2});
      dies_in(2);
      if (const auto all = group.answer(); !all[0] || all[1]) return "wrong";
      dies_in(3);
      double number[] = {1};
      group.sum(number);
      if (number[0] != 5) return "wrong";
      dies_in(4);
      if (group.broadcast_bytes(std::to_string(here.rank), 3) != "3") return "wrong";
      dies_in(5);
      group.close();
      return "closed";
    });
  };
  // Where this machine is slow, others may be thought late too.
  const auto is_named = [&](const std::string& text) {
    const auto named = text.find("; rank");
    return named != std::string::npos &&
           text.find(std::to_string(dead), named) != std::string::npos &&
           text.find(" not come", named) != std::string::npos;
  };
  // Or before the one that dies, which then has not come so far: once more, with more time.
  std::chrono::milliseconds limit = std::chrono::seconds(2);
  std::vector<std::string> said;
  const auto has_come_true = [&] {
    said = said_within(limit);
    for (std::uint32_t rank = 0; rank < 5; ++rank)
      if (rank == dead ? said[rank] != "exited with 7" : !is_named(said[rank])) return false;
    return true;
  };
  while (!has_come_true() && (limit *= 6) < patience) {
  }
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    INFO("phase " << phase << ", rank " << rank << ": " << said[rank]);
    if (rank == dead) {
      REQUIRE(said[rank] == "exited with 7");
      continue;
    }
    REQUIRE(said[rank].starts_with("error: rank " + std::to_string(rank) + " of 5, store at "));
    REQUIRE(is_named(said[rank]));
    REQUIRE(said[rank].find(lost_peer_mark) != std::string::npos);
  }
}

TEST_CASE("without Gloo the others hear of a rank that lets go", "[torch]") {
  const auto said = run_ranks(3, [](const environment& here) -> std::string {
    auto group = process_group::join(here, without_gloo());
    group.ask({});
    if (here.rank == 1) {
      group.let_go();  // while a question is open
      return "let go";
    }
    group.answer();
    group.ask({});
    group.answer();
    return "not noticed";
  });
  REQUIRE(said[1] == "let go");
  for (const std::size_t rank : {0U, 2U}) {
    INFO(said[rank]);
    REQUIRE(said[rank].find("hearing from all ranks: rank 1 has lost another rank") !=
            std::string::npos);
  }
}

}  // namespace ddprun::tests
