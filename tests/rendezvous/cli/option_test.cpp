#include "rendezvous/cli/option.hpp"

#include "rendezvous/cli/command_line.hpp"
#include "tests/support/catch.hpp"

#include <array>
#include <type_traits>

using namespace ddprun;
using namespace ddprun::cli;

namespace {

struct draft {
  std::string colour;
  bool loud = false;
};

checked apply_colour(draft& into, const given_option& option) {
  into.colour = option.value;
  return {};
}

checked apply_loud(draft& into, const given_option&) {
  into.loud = true;
  return {};
}

using row = option<draft>;

constexpr std::array table = {
    row{{.name = "colour",
         .value = "NAME",
         .heading = "Looks",
         .help = "of the sky ({})",
         .default_text = [] { return std::string("blue"); }},
        apply_colour},
    row{{.name = "loud",
         .heading = "Looks",
         .help = "first\nsecond",
         .kind = option_kind::flag,
         .letter = 'l'},
        apply_loud},
    row{{.name = "column", .whose = option_owner::torchrun}, refusal{"leave it out", "7"}},
    row{{.name = "help", .kind = option_kind::question}, apply_loud},
};

command test_command(bool takes_script = false) {
  return {"program", "ENV_", takes_script, specs_of(table)};
}

// The options' values; if there is an error, its text is the colour.
draft read(const std::vector<std::string>& words, const environment_map& environment = {}) {
  const command of = test_command();
  const auto line = split_command_line(of, words, environment);
  if (!line) return {line.error().text};
  draft into;
  for (const given_option& option : line->options) {
    if (const checked wrong = apply_option(table, into, option)) return {wrong->text};
  }
  return into;
}

template <typename Row>
concept has_row_without_action = requires {
  Row{option_spec{}};
};

}  // namespace

// A row without an action does not compile.
static_assert(!std::is_default_constructible_v<option_action<draft>>);
static_assert(!std::is_constructible_v<option_action<draft>, std::nullptr_t>);
static_assert(!has_row_without_action<row>);

TEST_CASE("an option does what its row says") {
  CHECK(read({"--colour", "red", "-l"}).colour == "red");
  CHECK(read({"--colour=red", "--loud"}).loud);
  CHECK(read({}, {{"ENV_COLOUR", "green"}, {"ENV_LOUD", "1"}}).colour == "green");
  CHECK(read({"--colour=red"}, {{"ENV_COLOUR", "green"}}).colour == "red");
  CHECK(read({}, {{"ENV_COLOUR", ""}, {"ENV_LOUD", ""}}).colour.empty());
  CHECK_FALSE(read({}, {{"ENV_LOUD", "0"}, {"ENV_HELP", "1"}}).loud);
}

TEST_CASE("an option that is refused says why, but for the value that asks for nothing") {
  CHECK(read({"--column=8"}).colour == "--column=8 is not supported: leave it out");
  CHECK(read({"--column=7"}).colour.empty());
  CHECK(read({}, {{"ENV_COLUMN", "8"}}).colour == "ENV_COLUMN=8 is not supported: leave it out");
}

TEST_CASE("a prefix that is enough for torchrun is enough") {
  CHECK(read({"--col=7"}).colour.empty());
  CHECK(read({"--colou=red"}).colour == "red");
}

TEST_CASE("options of another program are a value, when they are several words") {
  CHECK(read({"--colour", "-i key"}).colour == "-i key");
  CHECK(read({"--colour", "--dark red"}).colour == "--dark red");
  CHECK(read({"--colour", "-i", "key"}).colour == "--colour needs a value");
}

TEST_CASE("mistakes are told in the order in which they were written") {
  CHECK(read({"--column=8", "--column=9"}).colour.starts_with("--column=8 "));
}

TEST_CASE("a question is answered whatever stands behind it or in the environment") {
  const command of = test_command();
  const auto line = split_command_line(of, {"--loud", "--help", "--bogus"}, {{"ENV_LOUD", "yes"}});
  REQUIRE(line.has_value());
  REQUIRE(line->options.size() == 1);
  CHECK(line->options.front().spec->name == "help");
}

TEST_CASE("a program without a script takes no arguments") {
  CHECK(read({"x"}).colour == "unexpected argument x; program --help lists all");
  CHECK(read({"--", "x"}).colour == "unexpected argument x; program --help lists all");
  const command of = test_command(true);
  CHECK(split_command_line(of, {"--", "x", "-l"}, {})->arguments == std::vector<std::string>{"-l"});
}

TEST_CASE("help has a line for each option, with its default") {
  const std::string indent(31, ' ');
  CHECK(help_under(test_command(), "Looks") ==
        "  --colour=NAME                of the sky (blue)\n"
        "  -l, --loud                   first\n" +
            indent + "second\n");
  CHECK(help_under(test_command(), "").empty());
  CHECK(help_line("--much-longer-than-the-column=IT", "text") ==
        "  --much-longer-than-the-column=IT\n" + indent + "text\n");
}
