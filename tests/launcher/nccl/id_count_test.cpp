#include "launcher/nccl/id_count.hpp"

#include "tests/support/catch.hpp"

using ddprun::launcher::nccl_id_count;

TEST_CASE("there is an id of NCCL for each 128 ranks begun") {
  CHECK(nccl_id_count(1, {}) == 1);
  CHECK(nccl_id_count(128, {}) == 1);
  CHECK(nccl_id_count(129, {}) == 2);
  CHECK(nccl_id_count(1024, {}) == 8);
  CHECK(nccl_id_count(1025, {}) == 9);
}

TEST_CASE("or for as many ranks as PyTorch's variable says") {
  const auto of = [](std::uint32_t ranks, const char* value) {
    return nccl_id_count(ranks, {{"TORCH_NCCL_RANKS_PER_ROOT", value}});
  };
  CHECK(of(10, "3") == 4);
  CHECK(of(9, "3") == 3);
  CHECK(of(10, "1") == 10);
  CHECK(of(10, "4294967295") == 1);
  CHECK(of(100'000, "1") == ddprun::launcher::nccl_ids_max_made);
  for (const char* none : {"", "0", "-1", "many", "4294967296"}) {
    INFO(none);
    CHECK(of(129, none) == 2);
  }
}
