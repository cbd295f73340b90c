// Tests how a communicator handles NCCL's answers. Real transfers are tested where there is a GPU.
#include "worker/nccl/communicator.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/fake_nccl.hpp"
#include "tests/worker/client_of.hpp"
#include "worker/roll_call.hpp"

#include <cstdlib>
#include <nccl.h>
#include <vector>

using namespace std::chrono_literals;
using namespace ddprun::worker;
using ddprun::tests::client_of;
using ddprun::tests::fake_nccl;
using ddprun::tests::fresh_nccl;
using ddprun::tests::patience;
using ddprun::tests::served_store;

namespace {

// For what is to be too late: nobody waits for anything but this. Before it is over a rank has come
// to the store, and said so.
constexpr auto soon = 1s;

struct variable {
  variable(const char* named, const char* value) : name(named) { ::setenv(named, value, 1); }
  ~variable() { ::unsetenv(name); }
  const char* name;
};

struct rank_fixture {
  rank_fixture() {
    static std::uint32_t rounds = 0;
    here.round = ++rounds;
    here.rank = 1;
    here.local_rank = 1;
    here.world_size = 4;
    here.local_world_size = 4;
    here.master_address = "127.0.0.1";
    here.master_port = store.port();
    here.agent_store = true;
  }
  // Answers the roll call for another rank, as that rank's own join would.
  void come(std::uint32_t rank, const std::string& place) {
    roll_call call(client_of(store), "ddprun/nccl/" + std::to_string(here.round) + "/" + place,
                   rank, here.world_size);
    REQUIRE(call.answer(patience));
  }
  communicator join() { return communicator::join(here, options); }
  std::string join_error() {
    try {
      join();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  fake_nccl& nccl = fresh_nccl();
  served_store store;
  environment here;
  communicator_options options;
  variable ids{"DDPRUN_NCCL_IDS", "00010203040506070200a1110a000001"};
  variable version{"DDPRUN_NCCL_VERSION", "22809"};
};

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const nccl_error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  INFO(part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a communicator is joined with the launcher's ids", "[nccl]") {
  rank_fixture fixture;
  SECTION("one") {
    const auto all = fixture.join();
    CHECK(fixture.nccl.ids == std::vector<std::string>{"00010203040506070200a1110a000001"});
    CHECK_FALSE(fixture.nccl.is_blocking);
    CHECK(fixture.nccl.rank == 1);
    CHECK(fixture.nccl.ranks == 4);
    CHECK(fixture.nccl.device == 1);
    CHECK(all.rank() == 1);
    CHECK(all.world_size() == 4);
    CHECK(all.device() == 1);
    CHECK(all.version() == 22809);
  }
  SECTION("several") {
    const variable more("DDPRUN_NCCL_IDS", "01,02,03");
    fixture.join();
    CHECK(fixture.nccl.ids == std::vector<std::string>{"01", "02", "03"});
  }
  CHECK(fixture.nccl.open == 0);
}

TEST_CASE("a rank that does not come is named", "[nccl]") {
  rank_fixture fixture;
  fixture.nccl.never_done = true;
  fixture.options.join_timeout = soon;
  fixture.come(2, "world/join");
  CHECK(fixture.join_error() ==
        "rank 1 of 4, NCCL 2.28.9, GPU 1: join: not joined within 1 s: ranks 0 and 3 have not "
        "come (a peer is gone or late)");
  CHECK(fixture.nccl.aborted == 1);
  CHECK(fixture.nccl.open == 0);
}

TEST_CASE("ranks that have come but cannot connect are told where they meet", "[nccl]") {
  rank_fixture fixture;
  fixture.nccl.never_done = true;
  fixture.options.join_timeout = soon;
  for (const std::uint32_t rank : {0, 2, 3})
    fixture.come(rank, "world/join");
  const std::string text = fixture.join_error();
  contains(text, "all ranks have come, and are not connected within 1 s; they meet at ");
  contains(text, "10.0.0.1:41233: NCCL_SOCKET_IFNAME");
}

TEST_CASE("ids of another NCCL are refused before a GPU is asked for", "[nccl]") {
  rank_fixture fixture;
  fixture.nccl.gpus = 0;
  const variable other("DDPRUN_NCCL_VERSION", "23007");
  const std::string text = fixture.join_error();
  contains(text, "NCCL 2.28.9 is loaded here");
  contains(text, "NCCL 2.30.7 has made");
  CHECK(fixture.nccl.open == 0);
}

TEST_CASE("a worker without a GPU of its own is an error", "[nccl]") {
  rank_fixture fixture;
  SECTION("none") {
    fixture.nccl.gpus = 0;
    fixture.nccl.cuda_code = 100;
    const std::string text = fixture.join_error();
    contains(text, "rank 1 of 4, NCCL 2.28.9: join: no GPU is visible: some text of CUDA");
  }
  SECTION("more workers than GPUs") {
    const variable seen("CUDA_VISIBLE_DEVICES", "4,5");
    fixture.nccl.gpus = 2;
    fixture.here.local_rank = 2;
    contains(
        fixture.join_error(),
        "GPU 2 is wanted, and 2 are visible (CUDA_VISIBLE_DEVICES=4,5): start at most as many");
  }
  CHECK(fixture.nccl.open == 0);
}

TEST_CASE("a worker that sees one GPU takes that", "[nccl]") {
  rank_fixture fixture;
  fixture.nccl.gpus = 1;
  CHECK(fixture.join().device() == 0);
}

TEST_CASE("without the launcher's ids rank 0 creates one, and the others read it", "[nccl]") {
  rank_fixture fixture;
  ::unsetenv("DDPRUN_NCCL_IDS");
  const std::string key = "ddprun/nccl/" + std::to_string(fixture.here.round) + "/world/id";
  SECTION("and found") {
    REQUIRE_FALSE(client_of(fixture.store).set(key, "22809 5a01", patience));
    fixture.join();
    CHECK(fixture.nccl.ids == std::vector<std::string>{"5a01"});
  }
  SECTION("and left") {
    fixture.here.rank = 0;
    fixture.join();
    CHECK(fixture.nccl.ids == std::vector<std::string>{"5a"});
    CHECK(client_of(fixture.store).get(key, patience).value() == "22809 5a");
  }
  SECTION("and of another version") {
    REQUIRE_FALSE(client_of(fixture.store).set(key, "22304 5a01", patience));
    contains(fixture.join_error(),
             "NCCL 2.28.9 is loaded here, but rank 0 has created the id with NCCL 2.23.4");
  }
  SECTION("and no store") {
    fixture.here.agent_store = false;
    contains(fixture.join_error(), "start this program with ddprun --nccl-ids=on");
  }
}

TEST_CASE("an id is not used twice", "[nccl]") {
  rank_fixture fixture;
  fixture.join();
  contains(fixture.join_error(), "this process has joined the ranks of this round before");
  fixture.here.rank = 0;
  fixture.options.name = "second";
  fixture.join();
  CHECK(fixture.nccl.ids == std::vector<std::string>{"5a"});
}

TEST_CASE("collectives call NCCL with the right arguments", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  std::vector<float> from(8), to(32);
  std::vector<std::int64_t> whole(4);
  auto* const stream = reinterpret_cast<cuda_stream>(&fixture);
  all.all_reduce(from, std::span(to), reduction::average, stream);
  all.broadcast(std::span(whole), 3, stream);
  all.all_gather(from, std::span(to), stream);
  all.reduce_scatter(to, std::span(from), reduction::max, stream);
  all.send(std::span(whole), 2, stream);
  all.receive(std::span(whole), 0, stream);
  const auto& calls = fixture.nccl.calls;
  REQUIRE(calls.size() == 6);
  CHECK(calls[0].name == "all_reduce");
  CHECK(calls[0].from == from.data());
  CHECK(calls[0].to == to.data());
  CHECK(calls[0].count == 8);
  CHECK(calls[0].type == ncclFloat32);
  CHECK(calls[0].operation == ncclAvg);
  CHECK(calls[0].stream == stream);
  CHECK(calls[1].to == whole.data());
  CHECK(calls[1].type == ncclInt64);
  CHECK(calls[1].operation == 3);
  CHECK(calls[2].count == 8);
  CHECK(calls[3].count == 8);
  CHECK(calls[3].operation == ncclMax);
  CHECK(calls[4].operation == 2);
  CHECK(calls[5].operation == 0);
  all.close(patience);
  CHECK(fixture.nccl.aborted == 0);
  CHECK(fixture.nccl.open == 0);
}

TEST_CASE("wrong sizes and ranks are refused before anything is enqueued", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  std::vector<float> from(8), to(31), less(7);
  const auto refused = [&](auto call, const std::string& part) { contains(error_of(call), part); };
  refused([&] { all.all_reduce(from, std::span(less), reduction::sum, nullptr); },
          "all_reduce of 8 float32: that is 8 elements, and there is room for 7");
  refused([&] { all.all_gather(from, std::span(to), nullptr); },
          "that is 32 elements, and there is room for 31");
  refused([&] { all.reduce_scatter(to, std::span(from), reduction::sum, nullptr); },
          "that cannot be divided evenly among 4 ranks");
  refused([&] { all.broadcast(std::span(from), 4, nullptr); }, "there is no rank 4");
  refused([&] { all.send(std::span(from), 4, nullptr); }, "send of 8 float32 to rank 4: there is");
  CHECK(fixture.nccl.calls.empty());
  CHECK(fixture.nccl.aborted == 0);
  all.abort();
  refused([&] { all.broadcast(std::span(from), 0, nullptr); }, "the communicator is closed");
  refused([&] { all.wait(nullptr, patience); }, "the communicator is closed");
}

TEST_CASE("a wait that times out names the ranks that have not come", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  std::vector<float> data(8);
  all.all_reduce(data, std::span(data), reduction::sum, nullptr);
  fixture.nccl.stream_is_busy = true;
  fixture.come(0, "world/late/1");
  fixture.come(3, "world/late/1");
  contains(error_of([&] { all.wait(nullptr, soon); }),
           "wait for all_reduce of 8 float32 (call 1): not done in time; rank 2 has not come to "
           "this call (in a wait of their own, or not at all) (a peer is gone or late)");
  CHECK(fixture.nccl.aborted == 1);
  CHECK(all.native() == nullptr);
}

TEST_CASE("an error of NCCL's own threads ends a wait", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  std::vector<float> data(8);
  all.all_reduce(data, std::span(data), reduction::sum, nullptr);
  all.wait(nullptr, patience);
  fixture.nccl.stream_is_busy = true;
  fixture.nccl.asynchronous_code = ncclRemoteError;
  fixture.nccl.last_error = "socketProgress: Connection closed by remote peer node-b<41233>\nmore";
  CHECK(error_of([&] { all.wait(nullptr, patience); }) ==
        "rank 1 of 4, NCCL 2.28.9, GPU 1: all_reduce of 8 float32 (call 1): remote error: "
        "socketProgress: Connection closed by remote peer node-b<41233> (a peer is gone or late)");
  CHECK(fixture.nccl.aborted == 1);
}

TEST_CASE("an error of CUDA ends a wait", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  fixture.nccl.stream_code = 700;
  contains(error_of([&] { all.wait(nullptr, patience); }), "cudaErrorSome: some text of CUDA");
  CHECK(fixture.nccl.aborted == 1);
}

TEST_CASE("the calls of a group are waited for once", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  std::vector<float> data(8);
  const int before = fixture.nccl.looks;
  all.grouped([&] {
    all.send(std::span(data), 2, nullptr);
    all.receive(std::span(data), 0, nullptr);
    CHECK(fixture.nccl.group_depth == 1);
    CHECK(fixture.nccl.looks == before);
  });
  CHECK(fixture.nccl.group_depth == 0);
  CHECK(fixture.nccl.calls.size() == 2);
  CHECK(fixture.nccl.looks > before);
}

TEST_CASE("a group belongs to one communicator, and nothing in it waits", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  auto part = all.split(0);
  REQUIRE(part);
  std::vector<float> data(8);
  SECTION("another's call") {
    contains(error_of([&] { all.grouped([&] { part->broadcast(std::span(data), 0, nullptr); }); }),
             "this thread is in a group of another communicator");
  }
  SECTION("a wait") {
    contains(error_of([&] { all.grouped([&] { all.wait(nullptr, patience); }); }),
             "wait: not allowed within a group");
  }
  SECTION("an abort") {
    all.grouped([&] {
      all.send(std::span(data), 2, nullptr);
      all.abort();
      CHECK(fixture.nccl.aborted == 0);
    });
  }
  CHECK(fixture.nccl.group_depth == 0);
  CHECK(fixture.nccl.aborted == 1);
  CHECK(all.native() == nullptr);
  part->broadcast(std::span(data), 0, nullptr);
}

TEST_CASE("a group that fails is ended before its communicator", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  std::vector<float> data(8);
  fixture.nccl.call_code = ncclInvalidUsage;
  contains(error_of([&] {
             all.grouped([&] {
               all.send(std::span(data), 2, nullptr);
               FAIL("it has failed");
             });
           }),
           "send of 8 float32 to rank 2 (call 1): some error");
  CHECK(fixture.nccl.group_depth == 0);
  CHECK(fixture.nccl.aborted == 1);
}

TEST_CASE("a part has ranks of its own", "[nccl]") {
  rank_fixture fixture;
  auto all = fixture.join();
  auto part = all.split(1, 5);
  REQUIRE(part);
  CHECK(fixture.nccl.calls.at(0).operation == 1);
  CHECK(fixture.nccl.calls.at(0).count == 5);
  CHECK(part->rank() == 0);
  CHECK(part->world_size() == 2);
  CHECK(part->device() == 1);
  CHECK_FALSE(all.split(std::nullopt));
  contains(error_of([&] { all.split(0xffffffffU); }), "color and key are less than 2^31");
  part->close(patience);
  all.close(patience);
  CHECK(fixture.nccl.open == 0);
  CHECK(fixture.nccl.aborted == 0);
}
