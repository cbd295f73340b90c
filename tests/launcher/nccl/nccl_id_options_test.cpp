#include "launcher/nccl/nccl_id_options.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

nccl_id_options read(const std::vector<std::string>& words, const environment_map& set = {}) {
  const auto outcome = parse_nccl_id_options(words, set);
  REQUIRE(std::holds_alternative<nccl_id_options>(outcome));
  return std::get<nccl_id_options>(outcome);
}

std::string error_of(const std::vector<std::string>& words) {
  const auto outcome = parse_nccl_id_options(words, {});
  REQUIRE(std::holds_alternative<cli::usage_error>(outcome));
  return std::get<cli::usage_error>(outcome).text;
}

}  // namespace

TEST_CASE("ddprun-nccl-id takes a library, Python's, and a number") {
  CHECK(read({}).count == 0);
  CHECK(read({}).library.empty());
  CHECK(read({"--python", "3"}).asks_python);
  CHECK(read({"--python", "3"}).count == 3);
  CHECK(read({"--program", "./train", "3"}).program == "./train");
  CHECK(read({"--program=--odd"}).program == "--odd");
  CHECK(read({"--library", "/x", "65536"}).library == "/x");
  CHECK(read({"--library=/x", "65536"}).count == 65536);
}

TEST_CASE("the variable names the library, whatever is written") {
  const environment_map set{{"DDPRUN_NCCL_LIBRARY", "/named"}};
  CHECK(read({"--library", "/x"}, set).library == "/named");
  CHECK_FALSE(read({"--python"}, set).asks_python);
  CHECK(read({"--program", "/x"}, set).program.empty());
}

TEST_CASE("what ddprun-nccl-id does not understand is one line") {
  CHECK(error_of({"--library"}).find("--library") != std::string::npos);
  CHECK(error_of({"--program="}).find("--program") != std::string::npos);
  CHECK(error_of({"--no-such"}).find("--no-such") != std::string::npos);
  CHECK(error_of({"0"}).find("'0'") == 0);
  CHECK(error_of({"65537"}).find("'65537'") == 0);
  CHECK(error_of({"two"}).find("'two'") == 0);
  CHECK(error_of({"2", "3"}) == "'3': one number of ids is all it takes");
}

TEST_CASE("ddprun-nccl-id answers questions") {
  const auto help = parse_nccl_id_options({"--help"}, {});
  CHECK(std::get<cli::show_text>(help).text.find("usage: ddprun-nccl-id [OPTIONS] [COUNT]") == 0);
  const auto told = parse_nccl_id_options({"--version"}, {});
  CHECK(std::get<cli::show_text>(told).text.find("ddprun-nccl-id ") == 0);
}
