// What the launcher writes about a stop, and what a worker reads of it.
#include "worker/stop_word.hpp"

#include "launcher/agent/stop_file.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <string>
#include <unistd.h>

namespace ddprun::worker {
namespace {

using namespace std::chrono_literals;

class variable {
 public:
  explicit variable(const char* path) {
    path == nullptr ? ::unsetenv("DDPRUN_STOP") : ::setenv("DDPRUN_STOP", path, 1);
  }
  ~variable() { ::unsetenv("DDPRUN_STOP"); }
};

std::optional<bool> is_ordinary() {
  const auto word = read_stop_word();
  return word ? std::optional(word->is_ordinary) : std::nullopt;
}

std::string content_of(const launcher::stop_file& file) {
  char text[100];
  const int opened = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(opened >= 0);
  const ssize_t size = ::read(opened, text, sizeof text);
  ::close(opened);
  REQUIRE(size >= 0);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

TEST_CASE("a worker reads whether a stop is an ordinary one") {
  launcher::stop_file file;
  REQUIRE_FALSE(file.path().empty());
  const variable named(file.path().c_str());
  CHECK(is_ordinary() == std::nullopt);
  file.rank_is_lost();  // nobody is stopped yet
  CHECK(is_ordinary() == std::nullopt);
  file.stop(true, 30s);
  CHECK(is_ordinary() == true);
  SECTION("until a rank is lost meanwhile") {
    file.rank_is_lost();
    CHECK(is_ordinary() == false);
  }
  SECTION("until the next round begins") {
    file.begin_round();
    CHECK(is_ordinary() == std::nullopt);
    file.stop(false, 5s);
    CHECK(is_ordinary() == false);
  }
}

TEST_CASE("a worker that no launcher of ours has started knows nothing of a stop") {
  const variable named(GENERATE(as<const char*>(), nullptr, "", "/no/such/file"));
  CHECK_FALSE(read_stop_word());
}

TEST_CASE("a worker reads when it is killed at the earliest") {
  launcher::stop_file file;
  const auto before = std::chrono::steady_clock::now();
  file.stop(false, 5s);
  const auto after = std::chrono::steady_clock::now();
  const auto word = stop_word_in(content_of(file));
  REQUIRE(word);
  CHECK_FALSE(word->is_ordinary);
  CHECK(word->killed_at >= before + 5s - 1ms);  // it is written in milliseconds
  CHECK(word->killed_at <= after + 5s + 1ms);
  const auto text = content_of(file);
  file.rank_is_lost();
  CHECK(content_of(file) == text);
}

TEST_CASE("other texts say nothing of a stop") {
  const auto text = GENERATE(as<std::string>(), "", "ordinary", "ordinary ", "ordinary x",
                             "ordinary -1", "ordinary 1e300", "ordinary nan", "always 5");
  CAPTURE(text);
  CHECK_FALSE(stop_word_in(text));
  CHECK(stop_word_in("failure  81507.417   \n") ==
        stop_word{false, time_point(std::chrono::milliseconds(81507417))});
}

}  // namespace ddprun::worker
