#include "worker/snapshot/tensors_by_name.hpp"

#include "tests/support/catch.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace ddprun::tests {

TEST_CASE("each of 20,000 tensors is found under its name", "[snapshot]") {
  worker::snapshot_part part;
  for (std::size_t at = 0; at < 20'000; ++at) {
    part.tensors.emplace_back();
    part.tensors.back().name = "layer." + std::to_string(at) + ".weight";
  }
  std::size_t looks = 0;  // at two names
  const auto counts = [&](std::string_view one, std::string_view other) {
    ++looks;
    return one < other;
  };
  const std::function<bool(std::string_view, std::string_view)> less = counts;
  const auto tensors = worker::by_name(part, less);
  REQUIRE(tensors.size() == part.tensors.size());
  // Each by itself: to be put there, and found again. In a tree of 20,000 that is at most
  // 2 log2(20,001), 29, and one more to know it; looked through one by one it would be 10,000.
  constexpr std::size_t most = 30;
  CHECK(looks <= most * part.tensors.size());
  looks = 0;
  std::size_t wrong = 0;
  for (const auto& each : part.tensors) {
    const auto found = tensors.find(each.name);
    if (found == tensors.end() || found->second != &each) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(looks <= most * part.tensors.size());
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
