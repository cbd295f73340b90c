// A staged tensor is a copy, byte for byte, wherever it begins and ends.
#include "worker/snapshot/staging_buffer.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/small_job.hpp"

#include <cstddef>
#include <string>

namespace ddprun::tests {

TEST_CASE("tensors of any length and place are staged as they are", "[snapshot]") {
  constexpr std::size_t piece = std::size_t{4} << 20;
  const std::size_t lengths[] = {1,     piece, 300'001, 7,         (256 << 10) - 1, 256 << 10,
                                 65537, 1,     500'003, piece + 7, 3 * piece + 65,  0};
  std::string all(6 * piece, '\0');
  std::uint32_t random = 1;
  for (char& each : all)
    each = static_cast<char>((random = random * 1'664'525 + 1'013'904'223) >> 24);
  worker::staging_buffer staging;
  for (int turn = 0; turn < 2; ++turn) {  // the second time in existing memory
    worker::snapshot_state state;
    for (std::size_t at = 0; at < std::size(lengths); ++at) {
      const auto from = std::string_view(all).substr(at + static_cast<std::size_t>(turn));
      state.replicated.tensors.push_back(
          bytes_tensor("t" + std::to_string(at), from.substr(0, lengths[at])));
    }
    std::string problem;
    auto layout = worker::lay_out(state.replicated, state.own, problem);
    INFO(problem);
    REQUIRE(layout.has_value());
    auto staged = *layout;
    REQUIRE_FALSE(staging.stage(staged));
    for (std::size_t at = 0; at < staged.tensors.size(); ++at) {
      INFO(staged.tensors[at].name);
      CHECK((staged.tensors[at].bytes == layout->tensors[at].bytes));
      CHECK((lengths[at] == 0 ||
             staged.tensors[at].bytes.data() != layout->tensors[at].bytes.data()));
    }
  }
}

}  // namespace ddprun::tests
