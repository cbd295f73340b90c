// When the members of a round learn of its service, with a shell script in place of ddprun-nccl-id.
#include "launcher/nccl/nccl_opening.hpp"

#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr const char* script_with_ids =
    "echo version 23007; echo library /x; read count; echo address 10.0.0.1:7; echo id 01; "
    "echo end; read forever";

struct opening_fixture : process_fixture {
  explicit opening_fixture(const std::string& script, bool is_required = false) {
    ::signal(SIGPIPE, SIG_IGN);  // as in ddprun
    nccl_helper_options options;
    options.program = folder.file("helper", "#!/bin/sh\n" + script + "\n", 0700);
    options.environment = environment();
    options.limit = std::chrono::minutes(5);
    nccl_opening::outside given;
    given.say = [this](note_level, const std::string& text) { said.push_back(text); };
    given.tell = [this](const core::agent_event& event) { told.push_back(event); };
    given.put = [](std::string) {};
    given.close = [this](round_number round) { closed.push_back(round); };
    ids = std::make_unique<nccl_opening>(io.get_executor(), spawn, *mux, std::move(options),
                                         is_required, store_mode::agent, environment_map(),
                                         std::move(given));
    core::open_service wanted;
    wanted.round = 7;
    ids->make(wanted);
  }
  ~opening_fixture() { ids.reset(); }
  void open(round_number round) {
    core::service_opened opened;
    opened.round = round;
    ids->hear(opened);
  }

  tests::temporary_folder folder;
  std::vector<std::string> said;
  std::vector<core::agent_event> told;
  std::vector<round_number> closed;
  std::unique_ptr<nccl_opening> ids;
};

}  // namespace

TEST_CASE("the members of a round hear of its service when its NCCL ids are there") {
  opening_fixture round(script_with_ids);
  round.open(7);
  CHECK(round.told.empty());
  round.run_until([&] { return !round.told.empty(); });
  REQUIRE(round.told.size() == 1);
  const auto& opened = std::get<core::service_opened>(round.told[0]);
  CHECK(opened.round == 7);
  CHECK(opened.leader_data != leader_data());
  CHECK(round.said.empty());
}

TEST_CASE("without NCCL ids a round begins with a warning, and fails where they were asked for") {
  for (const bool is_required : {false, true}) {
    CAPTURE(is_required);
    opening_fixture round("exit 3", is_required);
    round.open(7);
    round.run_until([&] { return !round.told.empty(); });
    REQUIRE(round.told.size() == 1);
    CHECK(std::holds_alternative<core::service_failed>(round.told[0]) == is_required);
    CHECK(round.closed.size() == (is_required ? 1 : 0));
    CHECK(round.said.size() == (is_required ? 0 : 1));
  }
}

TEST_CASE("of a service that is another round's nothing waits for NCCL ids") {
  opening_fixture round(script_with_ids);
  round.open(6);
  CHECK(round.told.size() == 1);
  round.ids->drop();
  round.open(7);
  CHECK(round.told.size() == 2);
}
