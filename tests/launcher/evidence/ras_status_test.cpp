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
  // The first communicator of several in which one is.
  CHECK(ras_sentence(
            status(communicator({reduced(4), reduced(4)}) + "," +
                   communicator({reduced(9), reduced(9), reduced(9), reduced(9), reduced(7)}))) ==
        "rank 4 of 5 is behind in NCCL (AllReduce 7, others 9)");
  CHECK(ras_sentence(status(communicator({reduced(9), reduced(9), reduced(9), reduced(9),
                                          reduced(8), reduced(7), reduced(9)}))) ==
        "ranks 4, 5 of 7 are behind in NCCL (AllReduce 8, others 9)");
}

TEST_CASE("where half of the ranks differ, or nothing can be read, NCCL names nobody") {
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

TEST_CASE("where NCCL's server listens is read as NCCL reads it") {
  CHECK((ras_place_of("localhost:28028").host == "localhost" &&
         ras_place_of("localhost:28028").port == 28028));
  CHECK((ras_place_of("[::1]:9").host == "::1" && ras_place_of("[::1]:9").port == 9));
  for (const std::string odd : {"", "28028", ":28028", "localhost:", "localhost:70000", "a:b"})
    CHECK(ras_place_of(odd).port == 0);
}

}  // namespace ddprun::launcher::evidence
