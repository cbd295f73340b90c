// What the leader sends of NCCL's ids to the members of its round, and what they read.
#include "launcher/nccl/round_ids.hpp"

#include "rendezvous/core/messages/validation.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

nccl_round_ids read_in(const leader_data& given) {
  nccl_round_ids ids;
  CHECK(read_nccl_ids(given, ids) == "");
  return ids;
}

}  // namespace

TEST_CASE("members read the ids that their leader gives") {
  CHECK(read_in({}) == nccl_round_ids{});
  CHECK(to_leader_data({}, 23007, "10.0.0.1:4711") == leader_data{});
  const leader_data one = to_leader_data({"0cc4"}, 22907, "[2001:db8::1]:4711");
  CHECK(read_in(one) == nccl_round_ids{{"0cc4"}, 1, 22907});
  CHECK(one.about == "1 id of NCCL 2.29.7; the ranks of the first meet at [2001:db8::1]:4711");
  CHECK(one.about.find("0cc4") == std::string::npos);
  CHECK(read_in(to_leader_data({"0cc4", "a2"}, 23007, "")) ==
        nccl_round_ids{{"0cc4", "a2"}, 2, 23007});
}

TEST_CASE("of more ids than there is room for the first are given, and how many there are") {
  const std::vector<std::string> all(nccl_ids_max + 3, std::string(256, 'f'));
  const leader_data given = to_leader_data(all, 23007, "10.0.0.1:4711");
  CHECK(core::problem_of(given) == "");
  const nccl_round_ids ids = read_in(given);
  CHECK(ids.count == nccl_ids_max + 3);
  CHECK(ids.first == std::vector<std::string>(nccl_ids_max, std::string(256, 'f')));
}

TEST_CASE("what is no list of ids is named, and nothing of it is taken") {
  for (const char* const text :
       {"x", "nccl", "nccl 1 1", "nccl 1 1 ", "nccl 1 2 0a", "nccl 1 1 0a,0b", "nccl 1 1 xy",
        "nccl one 1 0a", "nccl 1 -1 0a", "NCCL 1 1 0a", "nccl 1 1 0a;b"}) {
    INFO(text);
    nccl_round_ids ids{{"0c"}, 1, 2};
    CHECK(read_nccl_ids({text, {}}, ids) ==
          "the leader of the round sent data that is not a list of NCCL ids known to this ddprun, "
          "so the workers of this node get no DDPRUN_NCCL_IDS: use the same version of "
          "ddprun on every node");
    CHECK(ids == nccl_round_ids{});
  }
}
