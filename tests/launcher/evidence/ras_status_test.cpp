#include "launcher/evidence/ras_status.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

std::string communicator(const std::vector<std::string>& counts) {
  std::string ranks;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    ranks += (rank == 0 ? "" : ",") + std::string(R"({"rank":)") + std::to_string(rank) +
             R"(,"collective_counts":{)" + counts[rank] + "}}";
  }
  return R"({"hash":"0x1","ranks":[)" + ranks + "]}";
}

std::string status(const std::string& communicators) {
  return R"({"nccl_version":"2.30","communicators":[)" + communicators + "]}";
}

std::string reduced(int count) {
  return R"("Broadcast":2,"AllReduce":)" + std::to_string(count);
}

}  // namespace

TEST_CASE("of NCCL's communicators the ranks that are behind are named") {
  CHECK(ras_sentence(status(communicator({reduced(4), reduced(4), reduced(4)}))).empty());
  CHECK(ras_sentence(status(communicator({reduced(4), reduced(3), reduced(4)}))) ==
        "rank 1 of 3 is behind in NCCL (AllReduce 3, others 4)");
  // Of several communicators, the first one with a rank that is behind.
  CHECK(ras_sentence(
            status(communicator({reduced(4), reduced(4)}) + "," +
                   communicator({reduced(9), reduced(9), reduced(9), reduced(9), reduced(7)}))) ==
        "rank 4 of 5 is behind in NCCL (AllReduce 7, others 9)");
  CHECK(ras_sentence(status(communicator({reduced(9), reduced(9), reduced(9), reduced(9),
                                          reduced(8), reduced(7), reduced(9)}))) ==
        "ranks 4, 5 of 7 are behind in NCCL (AllReduce 8, others 9)");
}

TEST_CASE("where half of the ranks differ, or nothing can be read, NCCL names no rank") {
  CHECK(ras_sentence(status(communicator({reduced(4), reduced(3)}))).empty());
  for (const std::string odd :
       {"", "NCCL version 2.27", "[]", "{}", R"({"communicators":{}})", R"({"communicators":[1]})",
        R"({"communicators":[{"ranks":[1,2]}]})", R"({"communicators":[{"ranks":{}}]})",
        R"({"communicators":[{"ranks":[{"rank":-1,"collective_counts":[]}]}]})",
        R"({"communicators":[{"ranks":[{"collective_counts":{"AllReduce":"x"}}]}]})"}) {
    INFO(odd);
    CHECK(ras_sentence(odd).empty());
  }
}

TEST_CASE("what NCCL has counted is the same as long as no rank launches a collective") {
  const std::string first = ras_counts(status(communicator({reduced(4), reduced(3)})));
  CHECK_FALSE(first.empty());
  CHECK(ras_counts(status(communicator({reduced(4), reduced(3)}))) == first);
  CHECK(ras_counts(status(communicator({reduced(4), reduced(4)}))) != first);
  CHECK(ras_counts(status(communicator({reduced(3), reduced(4)}))) != first);
  CHECK(ras_counts(status(communicator({reduced(4), reduced(3)}) + "," +
                          communicator({reduced(1), reduced(1)}))) != first);
  for (const std::string odd :
       {"", "NCCL version 2.27", "{}", R"({"communicators":[]})", R"({"communicators":[1]})",
        R"({"communicators":[{"ranks":[{"rank":0,"pid":7}]}]})",
        R"({"communicators":[{"hash":[{}],"ranks":[]}]})"}) {
    INFO(odd);
    CHECK(ras_counts(odd).empty());
    CHECK_FALSE(sole_lag(odd));
  }
}

TEST_CASE("a status of NCCL that is nested without end is read as far as it goes") {
  const std::string nested = std::string(300'000, '[') + std::string(300'000, ']');
  const std::string odd = status(R"({"hash":)" + nested + R"(,"ranks":[{"rank":0,"pid":7,"host":)" +
                                 nested + R"(,"collective_counts":{)" + reduced(4) + "}}]}");
  CHECK_FALSE(ras_counts(odd).empty());
  CHECK_FALSE(sole_lag(odd));
}

TEST_CASE("a process that is behind all others in NCCL is known if it is the only one") {
  const auto process = [](const std::string& host, int pid, int count) {
    return R"({"rank":0,"host":")" + host + R"(","pid":)" + std::to_string(pid) +
           R"(,"collective_counts":{)" + reduced(count) + "}}";
  };
  const auto of = [](const std::string& ranks) {
    return status(R"({"hash":"0x1","ranks":[)" + ranks + "]}");
  };
  const std::string ahead = process("a", 7, 4) + ",";
  CHECK(sole_lag(of(ahead + process("b", 8, 3))) == ras_lag{8, "AllReduce 3, others 4"});
  CHECK_FALSE(sole_lag(of(ahead + process("b", 8, 4))));
  CHECK_FALSE(sole_lag(of(ahead + process("b", 8, 3) + "," + process("c", 9, 3))));
  CHECK(has_lags(of(ahead + process("b", 8, 3) + "," + process("c", 9, 3))));
  CHECK_FALSE(has_lags(of(ahead + process("b", 8, 4))));
  CHECK_FALSE(has_lags(""));
  // In two containers, processes may have the same PID.
  CHECK_FALSE(sole_lag(of(ahead + process("b", 8, 3) + "," + process("c", 8, 4))));
  // It is ahead in another communicator, so they wait for each other.
  CHECK_FALSE(sole_lag(status(R"({"ranks":[)" + ahead + process("b", 8, 3) + R"(]},{"ranks":[)" +
                              process("a", 7, 5) + "," + process("b", 8, 6) + "]}")));
}

TEST_CASE("where NCCL's server listens is read as NCCL reads it") {
  CHECK((ras_place_of("localhost:28028").host == "localhost" &&
         ras_place_of("localhost:28028").port == 28028));
  CHECK((ras_place_of("[::1]:9").host == "::1" && ras_place_of("[::1]:9").port == 9));
  for (const std::string odd : {"", "28028", ":28028", "localhost:", "localhost:70000", "a:b"})
    CHECK(ras_place_of(odd).port == 0);
}

}  // namespace ddprun::launcher::evidence
