#include "launcher/agent/ras_port.hpp"

#include "launcher/evidence/ras_status.hpp"
#include "launcher/network/free_port.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr std::string_view mark = "00112233445566778899aabbccddeeff";
constexpr std::string_view other_mark = "00112233445566778899aabbccddeef0";

evidence::keeper_options gathering() {
  evidence::keeper_options options;
  options.gathering_limit = std::chrono::seconds(2);
  return options;
}

std::string given(std::string_view to, const evidence::keeper_options& options = gathering(),
                  std::uint32_t visible_gpus = 8, environment_map environment = {}) {
  give_ras_port(environment, options, visible_gpus, to);
  const std::string* const found = find_variable(environment, "NCCL_RAS_ADDR");
  return found == nullptr ? "" : *found;
}

}  // namespace

TEST_CASE("each agent's NCCL answers at a port of its own, which no outgoing connection takes") {
  const evidence::ras_place place = evidence::ras_place_of(given(mark));
  CHECK(place.host == "localhost");
  REQUIRE(place.port != 0);
  CHECK(given(other_mark) != given(mark));
  const port_range kernels = kernel_port_range();
  if (kernels.low > 20'000) CHECK((place.port < kernels.low || place.port > kernels.high));
}

TEST_CASE("NCCL gets a port of ours where it will be asked, and where the user has named none") {
  CHECK(given(mark, gathering(), 8, {{"NCCL_RAS_ADDR", "localhost:28028"}}) == "localhost:28028");
  CHECK(given(mark, gathering(), 8, {{"NCCL_RAS_ADDR", ""}}).empty());
  CHECK(given(mark, gathering(), 0).empty());
  evidence::keeper_options options;
  CHECK(given(mark, options).empty());
  options.hang_limit = std::chrono::seconds(60);
  CHECK_FALSE(given(mark, options).empty());
}
