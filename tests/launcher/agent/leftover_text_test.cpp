#include "launcher/agent/leftover_text.hpp"

#include "tests/support/catch.hpp"

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;
using workers::leftover_state;

TEST_CASE("a line about what a success leaves behind says whose it is and what becomes of it") {
  const auto text = [](const worker_group::left_behind& left, std::optional<duration> grace) {
    return children_line(left, grace).text;
  };
  CHECK(text({leftover_state::spared, 3, {"rsync (11)"}}, 30s) ==
        "rank 3 succeeded and left 1 process behind: rsync (11); this node waits for it, 30 s at "
        "most (--children-grace)");
  CHECK(text({leftover_state::spared, {}, {"rsync (11)", "sh (12)"}}, 30s) ==
        "workers succeeded and left 2 processes behind in sessions of their own: rsync (11), sh "
        "(12); this node waits for them, 30 s at most (--children-grace)");
  CHECK(text({leftover_state::ended, {}, {"rsync (11)"}}, 30s) ==
        "workers succeeded and left 1 process behind in a session of its own: rsync (11); it is "
        "killed, as 30 s have passed (--children-grace)");
  CHECK(text({leftover_state::ended, 3, {"rsync (11)", "sh (12)"}}, 0s) ==
        "rank 3 succeeded and left 2 processes behind: rsync (11), sh (12); they are killed "
        "(--children-grace=0)");
  CHECK(text({leftover_state::stopped, 3, {"rsync (11)"}}, 30s) ==
        "rank 3 succeeded and left 1 process behind: rsync (11); it is killed, because the round "
        "is over");
  CHECK(text({leftover_state::kept, 3, {"rsync (11)"}}, std::nullopt) ==
        "rank 3 succeeded and left 1 process behind: rsync (11); it is left running "
        "(--children-grace=keep), and its output is lost");
}

TEST_CASE("what is killed is a warning, and what lives on is none") {
  const auto level = [](leftover_state what) {
    return children_line({what, 0, {"rsync (11)"}}, 30s).level;
  };
  CHECK(level(leftover_state::spared) == note_level::info);
  CHECK(level(leftover_state::kept) == note_level::info);
  CHECK(level(leftover_state::ended) == note_level::warning);
  CHECK(level(leftover_state::stopped) == note_level::warning);
}

TEST_CASE("of many processes the first eight are named, and all are counted") {
  std::vector<std::string> names;
  for (int pid = 1; pid <= 9; ++pid)
    names.push_back("p (" + std::to_string(pid) + ")");
  const leftover_line line = strays_line(names);
  CHECK(line.level == note_level::error);
  CHECK(line.text.starts_with(
      "9 processes that workers left behind cannot be killed (stuck in the kernel): p (1), "));
  CHECK(line.text.ends_with("p (8), ..."));
  CHECK(strays_line({"p (1)"}).text ==
        "1 process that a worker left behind cannot be killed (stuck in the kernel): p (1)");
}
