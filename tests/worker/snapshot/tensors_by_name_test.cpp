#include "worker/snapshot/tensors_by_name.hpp"

#include "tests/support/catch.hpp"

#include <string>

namespace ddprun::tests {

TEST_CASE("each of 20,000 tensors is found under its name", "[snapshot]") {
  worker::snapshot_part part;
  for (std::size_t at = 0; at < 20'000; ++at) {
    part.tensors.emplace_back();
    part.tensors.back().name = "layer." + std::to_string(at) + ".weight";
  }
  const auto tensors = worker::by_name(part);
  REQUIRE(tensors.size() == part.tensors.size());
  std::size_t wrong = 0;
  for (const auto& each : part.tensors) {
    const auto found = tensors.find(each.name);
    if (found == tensors.end() || found->second != &each) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(tensors.find("layer.20000.weight") == tensors.end());
}

TEST_CASE("of two tensors of one name the first is found, either way", "[snapshot]") {
  worker::snapshot_part part;
  part.tensors.resize(3);
  part.tensors[0].name = "other";
  part.tensors[1].name = part.tensors[2].name = "twice";
  CHECK(worker::by_name(part).at("twice") == &part.tensors[1]);
  CHECK(part.find("twice") == &part.tensors[1]);
}

}  // namespace ddprun::tests
