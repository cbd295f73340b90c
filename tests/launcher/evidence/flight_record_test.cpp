#include "launcher/evidence/flight_record.hpp"

#include "tests/support/catch.hpp"

#include <string>

namespace ddprun::launcher::evidence {
namespace {

std::string call(const std::string& group, int id, int number, const std::string& name,
                 bool has_ended, const std::string& more = "",
                 const std::string& label = "undefined") {
  return R"({"process_group":[")" + group + R"(",")" + label + R"("],"pg_id":)" +
         std::to_string(id) + R"(,"collective_seq_id":)" + std::to_string(number) +
         R"(,"profiling_name":"gloo:)" + name +
         R"(","is_p2p":false,"state":"scheduled","retired":)" + (has_ended ? "true" : "false") +
         more + "}";
}

std::string record(const std::string& calls, const std::string& status) {
  return R"({"version":"2.10","entries":[)" + calls + R"(],"pg_status":{)" + status + "}}";
}

std::string progress_of(int id, int called, int ended) {
  return "\"" + std::to_string(id) + R"(":{"last_enqueued_collective":")" + std::to_string(called) +
         R"(","last_completed_collective":")" + std::to_string(ended) +
         R"(","last_started_collective":"-1"})";
}

const std::string tensor = R"(,"input_sizes":[[7,3]],"input_dtypes":["Long"])";

}  // namespace

TEST_CASE("a flight record says what was called in each group, and what has not ended") {
  const auto found = flight_record_of(record(
      call("0", 0, 1, "all_reduce", true) + "," + call("0", 0, 2, "broadcast", false, tensor) +
          "," + call("3", 1, 9, "barrier", true),
      progress_of(0, 2, 1) + "," + progress_of(1, 9, 9) + "," + progress_of(7, 5, 5)));
  REQUIRE(found);
  CHECK(found->groups == std::map<std::string, group_progress>{{"0", {"", 2, 1, true, 0, 0}},
                                                               {"3", {"", 9, 9, false, 1, 0}}});
  REQUIRE(found->recent.size() == 3);
  const collective* const waits = pending_collective(*found);
  REQUIRE(waits != nullptr);
  CHECK(waits->name == "broadcast");
  CHECK(waits->tensors == "int64[7, 3]");
  CHECK(waits->elements == 21);
  CHECK(number_of(*found, *waits) == "#2");
  CHECK(number_of(*found, found->recent[2]) == "#9 of group 3");
  CHECK(text_of(*found, 0) ==
        "process group 0: the last collective called is #2, the last that has ended #1\n"
        "process group 3: the last collective called is #9, the last that has ended #9\n"
        "has not ended: broadcast #2 of int64[7, 3]\n"
        "ended: all_reduce #1\n"
        "ended: barrier #9 of group 3\n");
}

TEST_CASE("of a group that was connected anew only the calls since then count") {
  const std::string before =
      call("0", 0, 1, "barrier", true) + "," + call("0", 0, 2, "all_reduce", false) + ",";
  const auto found = flight_record_of(
      record(before + call("0", 0, 1, "barrier", true) + "," + call("0", 0, 2, "broadcast", true),
             progress_of(0, 2, 2)));
  REQUIRE(found);
  // It is the same group to those who have not been in it before.
  CHECK(found->groups == std::map<std::string, group_progress>{{"0", {"", 2, 2, true, 0, 0}}});
  REQUIRE(found->recent.size() == 2);
  CHECK(found->recent[1].name == "broadcast");
  CHECK(pending_collective(*found) == nullptr);
}

TEST_CASE("a rank that has called nothing has a record, too") {
  const auto found = flight_record_of(R"({"pg_config":{},"pg_status":{},"version":"2.10"})");
  REQUIRE(found);
  CHECK(found->groups.empty());
  CHECK(pending_collective(*found) == nullptr);
  const auto only_sent = flight_record_of(
      record(R"({"process_group":["0","default_pg"],"pg_id":0,"p2p_seq_id":4,"is_p2p":true,)"
             R"("profiling_name":"gloo:send 0->1","retired":true,"state":"scheduled"})",
             progress_of(0, -1, -1)));
  REQUIRE(only_sent);
  CHECK(only_sent->groups.at("0") == group_progress{"", 0, 0, true, 0, 0});
}

TEST_CASE("a group that was destroyed and made again under its name counts from anew") {
  const auto found = flight_record_of(
      record(call("0", 0, 8, "all_reduce", false) + "," + call("0", 2, 1, "all_reduce", true),
             progress_of(0, 8, 7) + "," + progress_of(2, 1, 1)));
  REQUIRE(found);
  CHECK(found->groups.at("0") == group_progress{"", 1, 1, true, 2, 1});
  CHECK(found->recent.size() == 1);
  CHECK(pending_collective(*found) == nullptr);
}

TEST_CASE("the first group of a process need not be that of all ranks") {
  // Of a job on NCCL with groups on Gloo beside it.
  const auto found =
      flight_record_of(record(call("5", 0, 7, "all_reduce", true, "", "part") + "," +
                                  call("4", 1, 3, "barrier", false, "", "default_pg"),
                              progress_of(0, 7, 7) + "," + progress_of(1, 3, 2)));
  REQUIRE(found);
  CHECK(found->groups == std::map<std::string, group_progress>{{"4", {"", 3, 2, true, 1, 0}},
                                                               {"5", {"part", 7, 7, false, 0, 0}}});
  CHECK(number_of(*found, found->recent[0]) == "#7 of group part");
  CHECK(number_of(*found, found->recent[1]) == "#3");
  // Nothing says which group that is.
  const auto forgotten = flight_record_of(record("", progress_of(0, 7, 7)));
  REQUIRE(forgotten);
  CHECK(forgotten->groups.empty());
  const auto of_user = flight_record_of(
      record(call("0", 0, 7, "all_reduce", true, "", "mine"), progress_of(0, 7, 7)));
  REQUIRE(of_user);
  CHECK(number_of(*of_user, of_user->recent[0]) == "#7 of group mine");
}

TEST_CASE("a number that groups of two backends have tells of neither") {
  const auto found = flight_record_of(record(call("0", 0, 7, "all_reduce", true) + "," +
                                                 call("0", 0, 8, "all_reduce", false) + "," +
                                                 call("1", 0, 2, "barrier", true, "", "part"),
                                             progress_of(0, 99, 98)));
  REQUIRE(found);
  CHECK(found->groups.at("0") == group_progress{"", 8, 7, true, 0, 0});
  CHECK(found->groups.at("1") == group_progress{"part", 2, 2, false, 0, 0});
}

TEST_CASE("a call between two ranks is none that others take part in") {
  const auto found = flight_record_of(
      R"({"entries":[{"process_group":["0","default_pg"],"pg_id":0,"p2p_seq_id":4,"is_p2p":true,)"
      R"("profiling_name":"gloo:recv 1<-0","retired":false,"state":"scheduled"}],"pg_status":{}})");
  REQUIRE(found);
  REQUIRE(found->recent.size() == 1);
  CHECK(found->recent[0].sequence == 4);
  CHECK(pending_collective(*found) == nullptr);
}

TEST_CASE("of many calls those that have not ended are kept, and the newest of the others") {
  std::string calls = call("0", 0, 1, "all_reduce", false);
  for (int number = 2; number <= 2000; ++number)
    calls += "," + call("0", 0, number, "all_reduce", true);
  const auto found = flight_record_of(record(calls, progress_of(0, 2000, 0)));
  REQUIRE(found);
  CHECK(found->recent.size() == recent_max);
  CHECK(found->recent.front().sequence == 1);
  CHECK(found->recent.back().sequence == 2000);
  std::string pending;
  for (int number = 1; number <= 500; ++number)
    pending += (number == 1 ? "" : ",") + call("0", 0, number, "all_reduce", false);
  CHECK(flight_record_of(record(pending, ""))->recent.size() == recent_max);
}

TEST_CASE("a record is read whatever else is in it, and not if a part is missing") {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const std::string odd = R"(,"more":{"a":[{"entries":[1]}],"pg_id":9},"retired_too":)" + deep;
  const std::string whole =
      record(call("0", 0, 1, "all_reduce", true, odd) + "," + deep + "," +
                 call("0", 0, 2, "all_reduce", false, odd + tensor),
             R"("x":[{"0":{"last_enqueued_collective":"7"}}],)" + progress_of(0, 2, 1));
  const auto found = flight_record_of(whole);
  REQUIRE(found);
  CHECK(found->groups.at("0") == group_progress{"", 2, 1, true, 0, 0});
  REQUIRE(found->recent.size() == 2);
  CHECK(found->recent[1].tensors == "int64[7, 3]");
  const std::string plain =
      record(call("0", 0, 1, "all_reduce", true, tensor), progress_of(0, 1, 1));
  REQUIRE(flight_record_of(plain));
  for (std::size_t size = 0; size < plain.size(); ++size)
    CHECK_FALSE(flight_record_of(std::string_view(plain).substr(0, size)));
  CHECK_FALSE(flight_record_of(plain + plain));
}

TEST_CASE("the tensors of a call are told in short") {
  const auto told = [](const std::string& sizes, const std::string& types) {
    const auto found =
        flight_record_of(record(call("0", 0, 1, "all_reduce", false,
                                     R"(,"input_dtypes":)" + types + R"(,"input_sizes":)" + sizes),
                                ""));
    REQUIRE(found);
    REQUIRE(found->recent.size() == 1);
    return found->recent[0];
  };
  CHECK(told("[[7],[3,2]]", R"(["Float","Half"])").tensors == "float32[7], float16[3, 2]");
  CHECK(told("[[7],[3,2]]", R"(["Float","Half"])").elements == 13);
  CHECK(told("[[7],[3],[1]]", R"(["Float","Half","Bool"])").tensors ==
        "float32[7], float16[3], ...");
  CHECK(told("[[1,2,3,4,5,6,7]]", R"(["Float"])").tensors == "float32[1, 2, 3, 4, 5, 6, ...]");
  CHECK(told("[[]]", R"(["Float"])").tensors == "float32[]");
  CHECK(told("[[7],[3]]", R"(["Float"])").tensors == "float32[7]");
  CHECK(told("[]", R"(["Float"])").tensors.empty());
  CHECK(told("7", R"(["Float"])").tensors.empty());
}

TEST_CASE("whatever a worker answers in place of its record is read without harm") {
  for (const std::string odd : {"", "no", "[]", "{}", "1", R"({"pg_status":[]})",
                                R"({"pg_status":1,"entries":[]})", R"({"entries":[]})"}) {
    INFO(odd);
    CHECK_FALSE(flight_record_of(odd));
  }
  CHECK_FALSE(flight_record_of(std::string(100000, '[')));
  for (const std::string odd :
       {R"("entries":{})", R"("entries":[1,null,"x",[],{}])", R"("entries":[{"process_group":[]}])",
        R"("entries":[{"process_group":["0",7]}])",
        R"("entries":[{"process_group":["0","d"],"profiling_name":7}])",
        R"("entries":[{"process_group":[{},{}],"profiling_name":"x"}])"}) {
    INFO(odd);
    const auto found = flight_record_of(R"({"pg_status":{"0":[]},)" + odd + "}");
    REQUIRE(found);
    CHECK(found->recent.empty());
  }
  const auto found = flight_record_of(
      R"({"pg_status":{"0":{"last_enqueued_collective":"99999999999999999999999"}},"entries":[)"
      R"({"process_group":["\u001b[31m\nx","\u202e"],"pg_id":-1,"profiling_name":"a:\n\u0007b",)"
      R"("collective_seq_id":-5,"retired":7,"state":[],"time_created_ns":18446744073709551615,)"
      R"("input_sizes":[[-1,{}],7,[1,2,3,4,5,6,7,8]],"input_dtypes":[[],"\n","F"]}]})");
  REQUIRE(found);
  const std::string text = text_of(*found, 1);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\x07') == std::string::npos);
  std::string long_name(100000, 'n');
  const auto longer = flight_record_of(record(call(long_name, 0, 1, long_name, false), ""));
  REQUIRE(longer);
  CHECK(text_of(*longer, 0).size() < 500);
  std::string groups;
  for (int number = 0; number < 1000; ++number)
    groups += (number == 0 ? "" : ",") + call("g" + std::to_string(number), number, 1, "x", true);
  CHECK(flight_record_of(record(groups, ""))->groups.size() <= groups_max);
}

}  // namespace ddprun::launcher::evidence
