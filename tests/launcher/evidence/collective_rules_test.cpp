#include "launcher/evidence/collective_rules.hpp"

#include "launcher/evidence/hang_rules.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

collective call_of(const std::string& name, std::uint64_t number, bool is_pending = true,
                   const std::string& group = "0") {
  collective one;
  one.group = group;
  one.name = name;
  one.sequence = number;
  one.is_pending = is_pending;
  return one;
}

collective with_tensor(collective one, const std::string& type, std::uint64_t elements) {
  one.type = type;
  one.elements = elements;
  one.tensors = type + "[" + std::to_string(elements) + "]";
  return one;
}

flight_record record_of(std::vector<collective> calls) {
  flight_record found;
  for (const collective& one : calls) {
    group_progress& group = found.groups[one.group];
    group.is_default = one.group == "0";
    group.enqueued = std::max(group.enqueued, one.sequence);
    if (!one.is_pending) group.completed = std::max(group.completed, one.sequence);
  }
  found.recent = std::move(calls);
  return found;
}

rank_evidence rank_of(std::uint32_t rank, flight_record record, const std::string& function) {
  rank_evidence one;
  one.rank = rank;
  one.pid = static_cast<pid_t>(1000 + rank);
  one.state = 'S';
  one.record = std::move(record);
  const bool is_users = function == "forward";
  one.stack = {
      {is_users ? "/home/me/train.py" : "/v/torch/distributed/distributed_c10d.py", 7, function},
      {"/home/me/train.py", 41, "step"}};
  return one;
}

constexpr stall_scope whole_round{true, false};

}  // namespace

TEST_CASE("different collectives of one number are a mismatch") {
  const flight_record reduces = record_of({with_tensor(call_of("all_reduce", 5), "float32", 1024)});
  const flight_record sends = record_of({with_tensor(call_of("broadcast", 5), "int64", 21)});
  const auto found = mismatch_of({{0, &reduces}, {1, &sends}, {2, &reduces}});
  REQUIRE(found);
  CHECK(sentence_of(*found) ==
        "ranks called different collectives as #5: rank 1 broadcast of int64[21], ranks 0 and 2 "
        "all_reduce of float32[1024]");
  CHECK_FALSE(mismatch_of({{0, &reduces}, {2, &reduces}}));
  // One of them has ended: it may be of a group that had the same name before.
  const flight_record over = record_of({call_of("broadcast", 5, false)});
  CHECK_FALSE(mismatch_of({{0, &reduces}, {1, &over}}));
}

TEST_CASE("calls of groups that had one name one after the other are not compared") {
  const flight_record earlier = record_of({call_of("all_reduce", 5)});
  flight_record anew = record_of({call_of("broadcast", 5)});
  REQUIRE(mismatch_of({{0, &earlier}, {1, &anew}}));
  anew.groups["0"].earlier = 1;
  CHECK_FALSE(mismatch_of({{0, &earlier}, {1, &anew}}));
  flight_record other = anew;
  other.recent[0].name = "barrier";
  CHECK(mismatch_of({{1, &anew}, {2, &other}}));
}

TEST_CASE("sizes and types are compared where they have to be the same") {
  const auto differs = [](const collective& one, const collective& other) {
    const flight_record first = record_of({one});
    const flight_record second = record_of({other});
    return mismatch_of({{0, &first}, {1, &second}}).has_value();
  };
  const collective reduce = with_tensor(call_of("all_reduce", 5), "float32", 8);
  CHECK(differs(reduce, with_tensor(call_of("all_reduce", 5), "float32", 9)));
  CHECK(differs(reduce, with_tensor(call_of("all_reduce", 5), "float64", 8)));
  CHECK_FALSE(differs(reduce, with_tensor(call_of("all_reduce", 6), "float32", 9)));
  CHECK_FALSE(differs(with_tensor(call_of("all_to_all", 5), "float32", 8),
                      with_tensor(call_of("all_to_all", 5), "float32", 9)));
}

TEST_CASE("the sentence has the number of the collective, and in which call of the script it is") {
  node_evidence seen;
  const flight_record late = record_of({call_of("all_reduce", 1203, false)});
  const flight_record waits = record_of({call_of("all_reduce", 1204)});
  for (const std::uint32_t rank : {0u, 1u, 2u})
    seen.ranks.push_back(rank_of(rank, waits, "all_reduce"));
  seen.ranks.push_back(rank_of(3, late, "forward"));
  CHECK(sentence_of(seen) ==
        "rank 3 stood in forward (train.py:7) while ranks 0 to 2 waited in all_reduce #1204, step "
        "(train.py:41)");
  node_evidence through;
  through.ranks.push_back(rank_of(0, waits, "wait"));
  CHECK(sentence_of(through) == "rank 0 waited in wait for all_reduce #1204, step (train.py:41)");
  node_evidence base;
  base.ranks.push_back(
      rank_of(0, record_of({call_of("_all_gather_base", 2)}), "all_gather_into_tensor"));
  CHECK(sentence_of(base) == "rank 0 waited in all_gather_into_tensor #2, step (train.py:41)");
}

TEST_CASE("a rank whose collectives have gone on has moved, wherever it stands") {
  const rank_evidence before = rank_of(0, record_of({call_of("all_reduce", 5)}), "all_reduce");
  CHECK(stands_as_before(before, before));
  CHECK_FALSE(
      stands_as_before(before, rank_of(0, record_of({call_of("all_reduce", 6)}), "all_reduce")));
  rank_evidence anew = before;
  anew.record->groups["0"].own += 1;
  CHECK_FALSE(stands_as_before(before, anew));
  rank_evidence silent = before;
  silent.record.reset();
  CHECK(stands_as_before(before, silent));
}

TEST_CASE("a mismatch is part of the verdict") {
  node_evidence seen;
  seen.ranks.push_back(rank_of(0, record_of({call_of("all_reduce", 5)}), "all_reduce"));
  seen.ranks.push_back(rank_of(1, record_of({call_of("broadcast", 5)}), "broadcast"));
  seen.ranks.push_back(rank_of(2, record_of({call_of("all_reduce", 5)}), "all_reduce"));
  const auto verdict = judge_hang(seen, seen, whole_round);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->words.ends_with(
      "; ranks called different collectives as #5: rank 1 broadcast, ranks 0 and 2 all_reduce"));
}

}  // namespace ddprun::launcher::evidence
