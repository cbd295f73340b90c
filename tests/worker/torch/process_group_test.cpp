// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "worker/torch/process_group.hpp"

#include "rendezvous/base/lost_peer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/store_client.hpp"
#include "worker/torch/metrics.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <signal.h>
#include <sstream>
#include <unistd.h>

namespace ddprun::tests {

using worker::environment;
using worker::process_group;
using worker::process_group_options;

TEST_CASE("collectives give every rank the same result", "[torch]") {
  const auto said = run_ranks(3, [](const environment& environment) {
    auto group = process_group::join(environment);
    auto sum = at::full({2}, static_cast<double>(environment.rank + 1));
    group.all_reduce_sum(sum);
    auto sent = at::full({1}, static_cast<double>(environment.rank));
    group.broadcast(sent, 2);
    const auto bytes =
        group.broadcast_bytes(environment.rank == 1 ? std::string("a\0b", 3) : "unused", 1);
    const auto nothing = group.broadcast_bytes(environment.rank == 0 ? "" : "unused", 0);
    group.barrier();
    std::ostringstream text;
    text << sum[0].item<float>() << ' ' << sum[1].item<float>() << ' ' << sent.item<float>() << ' '
         << bytes.size() << bytes[0] << bytes[2] << ' ' << nothing.size();
    return text.str();
  });
  REQUIRE(said == std::vector<std::string>(3, "6 6 2 3ab 0"));
}

TEST_CASE("some ranks make a group of their own", "[torch]") {
  const auto said = run_ranks(3, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    auto part = group.subgroup({2, 0});
    auto alone = group.subgroup({1});
    std::ostringstream text;
    for (auto* each : {&part, &alone}) {
      if (!*each) continue;
      auto sum = at::full({1}, static_cast<double>(environment.rank + 1));
      (*each)->all_reduce_sum(sum);
      text << (*each)->rank() << " of " << (*each)->world_size() << ": " << sum.item<float>();
      (*each)->close();
    }
    group.close();
    return text.str();
  });
  REQUIRE(said == std::vector<std::string>{"1 of 2: 4", "0 of 1: 2", "0 of 2: 4"});
}

TEST_CASE("calls on a closed group are an error", "[torch]") {
  const auto said = run_ranks(1, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    group.close();
    group.barrier();
    return "went on";
  });
  REQUIRE(said[0].find(": barrier: the group is closed") != std::string::npos);
}

TEST_CASE("an invalid list of ranks is refused as a subgroup", "[torch]") {
  const auto said = run_ranks(1, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    std::string text;
    for (const auto& ranks : std::vector<std::vector<std::uint32_t>>{{}, {1}, {0, 0}}) {
      try {
        group.subgroup(ranks);
      } catch (const worker::process_group_error& error) {
        text += std::string(error.what()).substr(std::string(error.what()).find("subgroup")) + ";";
      }
    }
    return text;
  });
  const std::string each = "subgroup: its ranks must be from 0 to 0, each once;";
  REQUIRE(said[0] == each + each + each);
}

TEST_CASE("ranks that do not join are named", "[torch]") {
  const std::string named = "; ranks 1 and 3 have not come";
  const auto said_within = [](std::chrono::milliseconds limit) {
    return run_ranks(4, [&](const environment& environment) -> std::string {
      if (environment.rank % 2 == 1) return "elsewhere";
      process_group_options options;
      options.join_timeout = limit;
      process_group::join(environment, options);
      return "joined";
    });
  };
  // Where the machine has no time for the other one, it is late as well: once more, with more.
  std::chrono::milliseconds limit = std::chrono::seconds(2);
  auto said = said_within(limit);
  while (said[0].find(named) == std::string::npos && (limit *= 6) < patience)
    said = said_within(limit);
  INFO(said[0]);
  INFO(said[2]);
  REQUIRE(said[0].find("cannot join the other ranks: ") != std::string::npos);
  REQUIRE(said[0].find(named) != std::string::npos);
  REQUIRE(said[0].find(ddprun::lost_peer_mark) != std::string::npos);
}

TEST_CASE("a rank that dies is an error of the others, with rank and store named", "[torch]") {
  const auto said = run_ranks(2, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    group.barrier();
    if (environment.rank == 1) ::_exit(7);
    auto sum = at::ones({1000});
    group.all_reduce_sum(sum);
    return "not noticed";
  });
  INFO("rank 0: " << said[0]);
  REQUIRE(said[1] == "exited with 7");
  REQUIRE(said[0].starts_with("error: rank 0 of 2, store at 127.0.0.1:"));
  REQUIRE(said[0].find(": all_reduce: ") != std::string::npos);
  REQUIRE(said[0].find(ddprun::lost_peer_mark) != std::string::npos);
  REQUIRE(said[0].find('\n') == std::string::npos);
}

// Of four ranks, one has died next to the one that lets go; of its two neighbours only the second
// is left.
TEST_CASE("a rank that waits for one that has let go gets an error at once", "[torch]") {
  const bool is_in_part = GENERATE(false, true);
  const auto said = run_ranks(4, [&](const environment& environment) -> std::string {
    auto all = process_group::join(environment);
    auto part = all.subgroup({0, 1});
    all.barrier();
    std::string problem;
    auto store = worker::store_client::from_environment(environment, patience, problem);
    if (!store) return problem;
    if (environment.rank > 1) return "ended";
    if (environment.rank == 1) {
      all.let_go();
      if (store->wait("heard", patience)) return store->problem();
      try {
        (is_in_part ? *part : all).barrier();
      } catch (const worker::process_group_error& error) {
        return error.what();
      }
      return "goes on";
    }
    std::string told = "not noticed";
    try {
      std::vector<at::Tensor> nothing{at::zeros({1})};
      (is_in_part ? *part : all).native()->recv(nothing, 1, 7)->wait(patience);
    } catch (const std::exception& error) {
      told = error.what();
    }
    if (store->set("heard", "", patience)) return store->problem();
    return told;
  });
  INFO(said[0]);
  REQUIRE(said[0].find(" by peer") != std::string::npos);  // closed or reset
  INFO(said[1]);
  REQUIRE(said[1].find("the group is closed") != std::string::npos);
}

TEST_CASE("a lost peer does not end a rank by SIGPIPE", "[torch]") {
  const auto write_to_nobody = [] {
    int ends[2];
    if (::pipe(ends) != 0) return std::string("no pipe");
    ::close(ends[0]);
    return std::string(::write(ends[1], "x", 1) < 0 ? "an error" : "written");
  };
  const auto said = run_ranks(1, [&](const environment& environment) {
    ::signal(SIGPIPE, SIG_DFL);  // in case the tests were started with it ignored
    const auto group = process_group::join(environment);
    return write_to_nobody();
  });
  REQUIRE(said[0] == "an error");
  const auto own = run_ranks(1, [&](const environment& environment) {
    static bool called = false;
    ::signal(SIGPIPE, [](int) { called = true; });
    const auto group = process_group::join(environment);
    const std::string answer = write_to_nobody();
    return answer + (called ? ", the program's own handler called" : "");
  });
  REQUIRE(own[0] == "an error, the program's own handler called");
}

TEST_CASE("a store that is not served is named", "[torch]") {
  const auto said = run_ranks(1, [](environment environment) -> std::string {
    environment.master_port = 1;
    process_group_options options;
    options.join_timeout = std::chrono::milliseconds(300);
    process_group::join(environment, options);
    return "joined";
  });
  INFO(said[0]);
  REQUIRE(
      said[0].starts_with("error: rank 0 of 1, store at 127.0.0.1:1: cannot reach the store: "));
}

TEST_CASE("an interface that is not there is named", "[torch]") {
  const auto said = run_ranks(1, [](const environment& environment) -> std::string {
    ::setenv("GLOO_SOCKET_IFNAME", "nosuch0", 1);
    process_group::join(environment);
    return "joined";
  });
  INFO(said[0]);
  REQUIRE(said[0].find("GLOO_SOCKET_IFNAME='nosuch0': ") != std::string::npos);
}

TEST_CASE("meters are averaged over the ranks by their weights", "[torch]") {
  const auto said = run_ranks(2, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    worker::meter loss, nothing;
    loss.add(environment.rank == 0 ? 2 : 4, environment.rank == 0 ? 3 : 1);
    worker::average_over_ranks(group, {&loss, &nothing});
    return std::to_string(loss.average()) + " of " + std::to_string(loss.weight()) + ", " +
           std::to_string(nothing.average());
  });
  for (const auto& each : said)
    REQUIRE(each == "2.500000 of 4.000000, 0.000000");
}

}  // namespace ddprun::tests
