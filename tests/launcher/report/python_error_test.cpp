#include "launcher/report/python_error.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;

namespace {

std::vector<python_error> last_chain(std::string_view of) {
  const auto chains = find_python_chains(of);
  return chains.empty() ? std::vector<python_error>() : chains.back().errors;
}

std::vector<std::string> texts(std::string_view of) {
  std::vector<std::string> result;
  for (const python_error& error : last_chain(of))
    result.push_back(error.text);
  return result;
}

constexpr std::string_view simple = R"(some words before
Traceback (most recent call last):
  File "/data/train.py", line 50, in <module>
    main()
  File "/data/train.py", line 31, in step
    raise ValueError("loss is NaN")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: loss is NaN
)";

}  // namespace

TEST_CASE("an exception of Python is found with its frames") {
  const auto chain = last_chain(simple);
  REQUIRE(chain.size() == 1);
  CHECK(chain[0].text == "ValueError: loss is NaN");
  REQUIRE(chain[0].frames.size() == 2);
  CHECK(chain[0].frames[0].place == "/data/train.py:50 in <module>");
  CHECK(chain[0].frames[0].code == "main()");
  CHECK(chain[0].frames[1].place == "/data/train.py:31 in step");
  CHECK(chain[0].frames[1].code == "raise ValueError(\"loss is NaN\")");
  CHECK(chain[0].frames[1].is_users);
}

TEST_CASE("PyTorch's rank before each line, and Windows' ends of lines, are no part of it") {
  std::string text;
  for (const char c : simple)
    text += c == '\n' ? std::string("\r\n[rank12]: ") : std::string(1, c);
  const auto chain = last_chain("[rank12]: " + text);
  REQUIRE(chain.size() == 1);
  CHECK(chain[0].text == "ValueError: loss is NaN");
  CHECK(chain[0].frames.size() == 2);
}

TEST_CASE("of a chain the first comes first, and an older chain is forgotten") {
  const std::string chained = std::string(simple) +
                              "\nDuring handling of the above exception, another exception "
                              "occurred:\n\nTraceback (most recent call last):\n"
                              "  File \"/data/train.py\", line 60, in <module>\n"
                              "    finish()\n"
                              "RuntimeError: Connection closed\n";
  CHECK(texts(chained) ==
        std::vector<std::string>{"ValueError: loss is NaN", "RuntimeError: Connection closed"});
  CHECK(texts(chained + std::string(simple)) ==
        std::vector<std::string>{"ValueError: loss is NaN"});
  const std::string caused = std::string(simple) +
                             "\nThe above exception was the direct cause of the following "
                             "exception:\n\nTraceback (most recent call last):\n"
                             "  File \"a.py\", line 1, in <module>\nKeyError: 'x'\n";
  CHECK(texts(caused) == std::vector<std::string>{"ValueError: loss is NaN", "KeyError: 'x'"});
}

TEST_CASE("a text that has lost its beginning still has its exception") {
  const std::size_t length = simple.size();
  for (std::size_t lost = 0; lost < length; ++lost) {
    const std::string_view rest = simple.substr(lost);
    INFO(rest);
    const bool has_frame = rest.find("  File \"") != std::string_view::npos;
    if (has_frame) CHECK(texts(rest) == std::vector<std::string>{"ValueError: loss is NaN"});
    if (!has_frame) CHECK(texts(rest).size() <= 1);
  }
}

TEST_CASE("names of exceptions are those of classes, alone or before a colon") {
  const auto after = [](const std::string& line) {
    return texts("  File \"a.py\", line 3, in f\n    x\n" + line + "\n");
  };
  CHECK(after("torch.cuda.OutOfMemoryError: CUDA out of memory.").size() == 1);
  CHECK(after("KeyboardInterrupt").size() == 1);
  CHECK(after("SyntaxError: invalid syntax").size() == 1);
  CHECK(after("my_package.errors.Broken: yes").size() == 1);
  CHECK(after("killed for a reason").empty());
  CHECK(after("WARNING something: else").empty());
  CHECK(after("2026-11-23 10:00:00 Error").empty());
  CHECK(after("").empty());
}

TEST_CASE("frames of Python and of installed packages are told from the user's own") {
  const auto is_users = [](const std::string& file) {
    return last_chain("  File \"" + file + "\", line 3, in f\n    x\nE: y\n")
        .at(0)
        .frames.at(0)
        .is_users;
  };
  CHECK(is_users("train.py"));
  CHECK(is_users("/home/me/python3/train.py"));
  CHECK_FALSE(is_users("/usr/lib/python3.11/runpy.py"));
  CHECK_FALSE(is_users("/venv/lib/python3.12/site-packages/torch/nn/modules/module.py"));
  CHECK_FALSE(is_users("/usr/lib/python3/dist-packages/numpy/core.py"));
  CHECK_FALSE(is_users("<frozen runpy>"));
}

TEST_CASE("text of any kind is no exception") {
  CHECK(texts("").empty());
  CHECK(texts("\n\n  \n").empty());
  CHECK(texts("ValueError: printed by the program itself\n").empty());
  CHECK(texts("  File \"a.py\", line x, in f\n  File \"a.py\n").empty());
  CHECK(texts("[rank]: x\n[rank12: y\n[rank12]:").empty());
  CHECK(texts(std::string(1000, '\0') + "\xff\xfe\n").empty());
}
