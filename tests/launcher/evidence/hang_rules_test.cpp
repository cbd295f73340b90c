#include "launcher/evidence/hang_rules.hpp"

#include "tests/support/catch.hpp"

#include <string>

namespace ddprun::launcher::evidence {
namespace {

using namespace std::chrono_literals;

rank_evidence rank_at(std::uint32_t rank, const std::string& file, const std::string& function,
                      char state = 'S') {
  rank_evidence one;
  one.rank = rank;
  one.pid = static_cast<pid_t>(1000 + rank);
  one.state = state;
  if (!function.empty()) one.stack = {{file, 7, function}, {"/home/me/train.py", 9, "<module>"}};
  return one;
}

rank_evidence waiting(std::uint32_t rank, const std::string& function = "all_reduce") {
  return rank_at(rank, "/v/site-packages/torch/distributed/distributed_c10d.py", function);
}

rank_evidence standing_at(std::uint32_t rank, const std::string& function) {
  return rank_at(rank, "/home/me/train.py", function);
}

std::optional<std::uint32_t> named(const node_evidence& seen, const stall_scope& scope) {
  const auto verdict = judge_hang(seen, seen, scope);
  if (!verdict) return std::nullopt;
  return verdict->rank;
}

constexpr stall_scope whole{true, false};
constexpr stall_scope part{false, false};
constexpr stall_scope learnt{true, true};

}  // namespace

TEST_CASE("the rank is named that is elsewhere while others wait") {
  const node_evidence seen{{waiting(0), standing_at(1, "forward"), waiting(2)}, "", {}};
  CHECK(named(seen, whole) == 1U);
  CHECK(named(seen, part) == 1U);
  CHECK(named(seen, learnt) == 1U);
}

TEST_CASE("a node whose ranks all wait names one only where it sees all ranks") {
  const node_evidence alike{{waiting(0), waiting(1)}, "", {}};
  CHECK_FALSE(named(alike, part));
  CHECK(named(alike, learnt) == 0U);
  CHECK(named(alike, whole) == 0U);
  const node_evidence differing{{waiting(0), waiting(1), waiting(2, "barrier")}, "", {}};
  CHECK_FALSE(named(differing, part));
  CHECK(named(differing, whole) == 2U);
}

TEST_CASE("ranks that are all in the script's own code may wait for one of another node") {
  const node_evidence seen{
      {standing_at(0, "load"), standing_at(1, "load"), standing_at(2, "save")}, "", {}};
  CHECK_FALSE(named(seen, part));
  CHECK_FALSE(named(seen, learnt));
  CHECK(named(seen, whole) == 2U);
}

TEST_CASE("where no rank says where it stands, only a stopped rank is named") {
  node_evidence seen{{rank_at(0, "", ""), rank_at(1, "", "")}, "", {}};
  CHECK_FALSE(named(seen, whole));
  CHECK_FALSE(named(seen, part));
  seen.ranks[0] = waiting(0);
  CHECK_FALSE(named(seen, whole));
  seen.ranks[1].wait_channel = "do_sigtimedwait";  // it is not asked, and is in no collective
  CHECK(named(seen, part) == 1U);
  seen.ranks[1].wait_channel.clear();
  seen.ranks[1].state = 'T';
  CHECK(named(seen, part) == 1U);
}

TEST_CASE("a stopped rank is named, a traced one keeps all from being named") {
  node_evidence seen{{waiting(0), waiting(1)}, "", {}};
  seen.ranks[1].state = 'T';
  CHECK(named(seen, part) == 1U);
  seen.ranks[0].state = 't';
  CHECK_FALSE(named(seen, whole));
}

TEST_CASE("a rank in one wait of the kernel is named, whatever else is known of it") {
  node_evidence seen{{waiting(0), rank_at(1, "", "", 'D'), standing_at(2, "forward")}, "", {}};
  CHECK_FALSE(named(seen, part));  // it may have moved while it was asked
  seen.ranks[1].waits = kernel_wait{"rpc_wait_bit_killable", 40};
  seen.ranks[1].awaited_file = "/data/step-100.pt";
  CHECK(named(seen, part) == 1U);
  CHECK(judge_hang(seen, seen, learnt)->words ==
        "rank 1 waited in the kernel for /data/step-100.pt (state D, rpc_wait_bit_killable), "
        "rank 2 stood in forward (train.py:7) while rank 0 waited in all_reduce, <module> "
        "(train.py:9)");
  // Its stack was told by another thread of it, at the second look only.
  node_evidence second = seen;
  second.ranks[1].stack = {{"/home/me/train.py", 31, "save"}};
  REQUIRE(judge_hang(seen, second, part));
  CHECK_THAT(judge_hang(seen, second, part)->words,
             Catch::Matchers::Contains("(state D, rpc_wait_bit_killable), save (train.py:31)"));
  second.ranks[1].waits->sleeps = 41;  // a slow disk
  CHECK_FALSE(judge_hang(seen, second, part));
  second.ranks[1].waits.reset();
  CHECK_FALSE(judge_hang(seen, second, part));
}

TEST_CASE("where all ranks are stuck in the kernel the first is named") {
  node_evidence seen{{rank_at(0, "", "", 'D'), rank_at(1, "", "", 'D')}, "", {}};
  for (rank_evidence& one : seen.ranks)
    one.waits = kernel_wait{"", 7};
  CHECK(named(seen, learnt) == 0U);
  CHECK(judge_hang(seen, seen, learnt)->words == "ranks 0 and 1 waited in the kernel (state D)");
  seen.ranks[0].awaited_file = "/" + std::string(200, 'x') + "/step-100.pt";
  CHECK(judge_hang(seen, seen, learnt)->words.find("for ...xx") != std::string::npos);
}

TEST_CASE("no rank is named where a stack has changed, or a rank has come or gone") {
  const node_evidence first{{waiting(0), standing_at(1, "forward")}, "", {}};
  node_evidence second = first;
  second.ranks[1].stack[0].line = 8;
  CHECK_FALSE(judge_hang(first, second, whole));
  second = first;
  second.ranks[1].pid = 7;
  CHECK_FALSE(judge_hang(first, second, whole));
  second = first;
  second.ranks.pop_back();
  CHECK_FALSE(judge_hang(first, second, whole));
  CHECK_FALSE(judge_hang({}, {}, whole));
}

TEST_CASE("a rank that spins waits in vain only where it waits, and NCCL's counts stand still") {
  node_evidence seen{{waiting(0), standing_at(1, "forward")}, "", {}};
  seen.nccl_counts = "4 3";
  CHECK(do_spin_in_vain({1000}, "4 3", seen));
  CHECK_FALSE(do_spin_in_vain({1000}, "4 2", seen));  // a collective was launched meanwhile
  CHECK_FALSE(do_spin_in_vain({1000}, "", seen));
  CHECK_FALSE(do_spin_in_vain({1000, 1001}, "4 3", seen));  // rank 1 computes
  seen.ranks[1].gpu_wait = ".item()";
  CHECK(do_spin_in_vain({1000, 1001}, "4 3", seen));
  seen.nccl_counts.clear();
  CHECK_FALSE(do_spin_in_vain({1000}, "", seen));  // NCCL does not say it
}

TEST_CASE("a rank that waits for its GPU waits for others where NCCL counts collectives") {
  node_evidence seen{{standing_at(0, "step"), standing_at(1, "forward")}, "", {}};
  seen.ranks[0].gpu_wait = ".item()";
  CHECK_FALSE(named(seen, part));
  seen.nccl_counts = "4 4";
  CHECK_FALSE(named(seen, part));  // nobody is behind: it may wait for what its GPU computes
  seen.nccl_counts = "4 3";
  seen.has_nccl_lags = true;
  CHECK(named(seen, part) == 1U);
  CHECK(judge_hang(seen, seen, part)->words ==
        "rank 1 stood in forward (train.py:7) while rank 0 waited for the GPU in .item(), step "
        "(train.py:7)");
}

TEST_CASE("of ranks that all wait for their GPUs none is named where none is behind") {
  node_evidence seen{{standing_at(0, "step"), standing_at(1, "forward"), waiting(2)}, "", {}};
  seen.ranks[0].gpu_wait = ".item()";
  seen.ranks[1].gpu_wait = "synchronize";
  seen.nccl_counts = "4 4 4";
  for (const auto& scope : {part, whole, learnt})
    CHECK_FALSE(named(seen, scope));
}

TEST_CASE("what is only assumed to be a move teaches nothing") {
  stillness still;
  const time_point start{};
  still.see(0, true, start);
  for (int minute = 1; minute < 10; ++minute)
    still.assume_moved(0, start + std::chrono::minutes(minute));
  CHECK(still.limit(std::nullopt) == learnt_limit_min);
  CHECK(still.still_for(0, start + std::chrono::minutes(9)) == duration::zero());
}

TEST_CASE("of ranks that all wait the one is named that is behind in NCCL") {
  node_evidence seen{{waiting(0), waiting(1), waiting(2)}, "", {}};
  seen.nccl_counts = "4 3 4";
  seen.nccl_lag = ras_lag{1001, "AllReduce 3, others 4"};
  CHECK(named(seen, part) == 1U);
  CHECK(judge_hang(seen, seen, learnt)->words ==
        "rank 1 waited in all_reduce, <module> (train.py:9), behind the others in NCCL (AllReduce "
        "3, others 4) while ranks 0 and 2 waited in all_reduce, <module> (train.py:9)");
  // The others wait for the rank that does not wait.
  seen.ranks[2] = standing_at(2, "forward");
  CHECK(named(seen, part) == 2U);
}

TEST_CASE("ranks stand still from their last move, and the least of them counts") {
  const time_point start{1000s};
  stillness still;
  still.begin();
  CHECK(still.all_still_for({0, 1}, start + 100s) == 0s);  // they were never seen
  still.see(0, false, start);
  still.see(1, false, start);
  still.see(0, false, start + 5s);
  still.see(1, true, start + 5s);
  CHECK(still.still_for(0, start + 9s) == 9s);
  CHECK(still.all_still_for({0, 1}, start + 9s) == 4s);
  CHECK(still.all_still_for({0}, start + 9s) == 9s);
  CHECK(still.all_still_for({}, start + 9s) == 0s);
  still.begin();
  CHECK(still.all_still_for({0, 1}, start + 100s) == 0s);
}

TEST_CASE("what is learnt is five times the longest pause, and no less than twenty seconds") {
  const time_point start{1000s};
  stillness still;
  still.begin();
  still.see(0, true, start);
  CHECK(still.limit({}) == 20s);
  still.see(0, true, start + 3s);
  CHECK(still.limit({}) == 20s);
  still.see(0, true, start + 33s);  // a checkpoint on a slow disk
  CHECK(still.limit({}) == 150s);
  CHECK(still.limit(2s) == 2s);
}

}  // namespace ddprun::launcher::evidence
