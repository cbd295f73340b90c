#include "launcher/cli/output_options.hpp"

#include "tests/launcher/cli/parsed_options.hpp"

using namespace ddprun::launcher;
using ddprun::tests::options_of;

namespace {

// "none", "1", "2" or "3" for each local rank from 0.
std::string streams(const std::string& text, std::uint32_t workers) {
  const auto choice = read_streams("--tee=" + text, text);
  if (!choice) return choice.error().text;
  std::string result;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const stream_set of = choice->of(rank);
    result += std::to_string((of.output ? 1 : 0) + (of.errors ? 2 : 0));
  }
  return result;
}

}  // namespace

TEST_CASE("streams are chosen for all workers, or by local rank") {
  CHECK(streams("0", 3) == "000");
  CHECK(streams("1", 3) == "111");
  CHECK(streams("3", 2) == "33");
  CHECK(streams("0:1,1:2", 3) == "120");
  // torchrun takes one digit only.
  CHECK(streams("11:3", 13) == "0000000000030");
  CHECK(streams("1:3,1:0", 2) == "00");
}

TEST_CASE("other words for streams are refused, with the forms") {
  for (const char* text : {"", "4", "03", "out", "0:", "0:4", ":1", "0:1,", "0:1,,1:1", "-1:1",
                           "0:1;1:1", "0 :1", "99999:1", "99999999999:1"}) {
    INFO(text);
    CHECK(streams(text, 1) ==
          "--tee=" + std::string(text) +
              ": write 0 (none), 1 (stdout), 2 (stderr) or 3 (both), for all workers of this node "
              "or by local rank, as in 0:3,1:2");
  }
}

TEST_CASE("a choice of nothing is known as such") {
  CHECK(read_streams("", "0")->none());
  CHECK(read_streams("", "0:0,1:0")->none());
  CHECK_FALSE(read_streams("", "0:0,1:2")->none());
}

TEST_CASE("local ranks are numbers with commas between") {
  CHECK(*read_local_ranks("", "2,0, 11") == std::set<std::uint32_t>{0, 2, 11});
  CHECK(read_local_ranks("", "")->empty());
  for (const char* text : {"a", "1,", ",", "1,,2", "-1", "1 2"}) {
    INFO(text);
    CHECK(read_local_ranks("--local-ranks-filter=" + std::string(text), text).error().text ==
          "--local-ranks-filter=" + std::string(text) +
              ": write local ranks with commas between, as in 0,1,2");
  }
}

TEST_CASE("filters are texts between commas, and two commas are one") {
  using texts = std::vector<std::string>;
  CHECK(read_filters("apple,orange juice") == texts{"apple", "orange juice"});
  CHECK(read_filters("a,,b") == texts{"a,b"});
  CHECK(read_filters("a,,,b") == texts{"a,", "b"});
  CHECK(read_filters("").empty());
  CHECK(read_filters(",a,") == texts{"a"});
}

TEST_CASE("where the output of workers goes is read as torchrun reads it") {
  const output_options output =
      options_of(
          "-r 0:1,12:2 -t3 --log_dir x --local_ranks_filter 0,1 --duplicate-stdout-filters=a,b "
          "--duplicate_stderr_filters c --log-line-prefix-template=${rank}: a.py")
          .output;
  CHECK(output.log_dir == "x");
  CHECK(output.redirects.of(0).output);
  CHECK(output.redirects.of(12).errors);
  CHECK(output.redirects.of(1).none());
  CHECK(output.tee.of(5).errors);
  CHECK(output.shown == std::set<std::uint32_t>{0, 1});
  CHECK(output.stdout_filters == std::vector<std::string>{"a", "b"});
  CHECK(output.stderr_filters == std::vector<std::string>{"c"});
  CHECK(output.prefix_template == "${rank}:");
  CHECK(output.color == ddprun::color_mode::automatic);
  CHECK(options_of("--color never a.py").output.color == ddprun::color_mode::never);
  CHECK(output.pty == pty_mode::automatic);
  CHECK(options_of("--pty=off a.py").output.pty == pty_mode::off);
  CHECK(output.writes_files());
  CHECK_FALSE(options_of("-r 0 --tee=0 --log-dir=x a.py").output.writes_files());
  const ddprun::environment_map variable = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x:"}};
  CHECK(options_of("a.py", variable).output.prefix_template == "x:");
  CHECK(options_of("--log-line-prefix-template=y a.py", variable).output.prefix_template == "y");
}

TEST_CASE("what is asked of output in vain is said") {
  const auto notes = [](const std::string& line) { return options_of(line).notes; };
  CHECK(notes("--log-dir=/dev/null a.py").empty());
  CHECK(notes("--log-dir=/dev/null -r 3 a.py") ==
        std::vector<std::string>{"-r=3 is ignored with --log-dir=/dev/null"});
  CHECK(notes("--duplicate-stdout-filters=x a.py") ==
        std::vector<std::string>{
            "--duplicate-stdout-filters=x is ignored: it is for streams of --tee"});
  CHECK(notes("--duplicate-stdout-filters=x --tee=1 a.py").empty());
}
