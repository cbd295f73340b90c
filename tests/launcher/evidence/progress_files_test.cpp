#include "launcher/evidence/progress_files.hpp"

#include "tests/support/catch.hpp"

#include <fstream>
#include <string>

namespace ddprun::launcher::evidence {

TEST_CASE("what a worker has written is a step where it is a number and nothing else") {
  CHECK(step_in("1204") == said_step{1204, false});
  CHECK(step_in("  0\n") == said_step{0, false});
  CHECK(step_in("18446744073709551615\n") == said_step{18446744073709551615U, false});
  CHECK(step_in("  1204 done\n") == said_step{1204, true});
  for (const std::string text : {"", " ", "\n", "-1", "+1", "1.5", "12 13", "0x10", "step 4",
                                 "done", "4 don", "done 4", "18446744073709551616", "1\n2\n"}) {
    INFO(text);
    CHECK_FALSE(step_in(text));
  }
  CHECK_FALSE(step_in(std::string("12\0", 3)));
}

TEST_CASE("each worker of a node has a file, which the next round finds empty") {
  progress_files files(2);
  REQUIRE(files.paths().size() == 2);
  CHECK_FALSE(files.step_of(0));
  const auto write = [&files](std::size_t local_rank, const std::string& text) {
    std::ofstream(files.paths()[local_rank]) << text;
  };
  write(1, "1204");
  CHECK_FALSE(files.step_of(0));
  CHECK(files.step_of(1) == said_step{1204, false});
  write(1, "7\n");
  CHECK(files.step_of(1) == said_step{7, false});
  write(1, std::string(1 << 20, '7'));
  CHECK_FALSE(files.step_of(1));
  CHECK_FALSE(files.step_of(2));
  CHECK(files.reached().empty());
  write(1, "1204");
  CHECK(files.reached() == "step 1204");
  write(0, "1203 done\n");
  CHECK(files.reached() == "steps 1203 to 1204");
  files.empty();
  CHECK_FALSE(files.step_of(0));
  CHECK(progress_files(100'000).paths().empty());
}

}  // namespace ddprun::launcher::evidence
