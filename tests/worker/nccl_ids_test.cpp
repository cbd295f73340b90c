#include "worker/nccl_ids.hpp"

#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "tests/worker/client_of.hpp"
#include "worker/store_client.hpp"

#include <map>
#include <optional>
#include <string>

using namespace std::chrono_literals;
using namespace ddprun::worker;
using ddprun::tests::client_of;
using ddprun::tests::patience;
using ddprun::tests::served_store;

namespace {

using variables = std::map<std::string, std::string>;

std::vector<nccl_id> ids_of(const variables& set, std::uint32_t version = 0,
                            const environment& here = {}, deadline until = patience) {
  return read_nccl_ids(here, until, version, [&](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string ids_error(const variables& set, std::uint32_t version = 0, const environment& here = {},
                      deadline until = patience) {
  try {
    ids_of(set, version, here, until);
  } catch (const environment_error& error) {
    return error.what();
  }
  return "";
}

environment at(const served_store& store) {
  environment here;
  here.rank = 1;
  here.world_size = 2;
  here.master_address = "127.0.0.1";
  here.master_port = store.port();
  here.agent_store = true;
  return here;
}

}  // namespace

TEST_CASE("a worker reads the ids of its round, with their zeros", "[nccl_ids]") {
  const auto ids = ids_of({{"DDPRUN_NCCL_IDS", "00ff10,7a"}});
  REQUIRE(ids.size() == 2);
  CHECK(ids[0][0] == 0);
  CHECK(static_cast<unsigned char>(ids[0][1]) == 0xff);
  CHECK(ids[0][2] == 0x10);
  CHECK(ids[0][3] == 0);
  CHECK(ids[1][0] == 0x7a);
  CHECK(ids[1][127] == 0);
  CHECK(ids_of({{"DDPRUN_NCCL_IDS", std::string(256, 'a')}}).size() == 1);
}

TEST_CASE("an error says that no ids were made, and what to do", "[nccl_ids]") {
  const std::string text =
      "DDPRUN_NCCL_IDS is not set: the launcher has made no NCCL ids; start it with "
      "ddprun --nccl-ids=on";
  CHECK(ids_error({}) == text);
  CHECK(ids_error({{"DDPRUN_NCCL_IDS", ""}}) == text);
}

TEST_CASE("a text that is not an id is named", "[nccl_ids]") {
  for (const std::string& wrong :
       {std::string("abc"), std::string("xy"), std::string("AB"), std::string(258, 'a'),
        std::string("ab,"), std::string(",ab"), std::string("ab,,cd")}) {
    INFO(wrong);
    CHECK(ids_error({{"DDPRUN_NCCL_IDS", wrong}}).find("is not an NCCL id") != std::string::npos);
  }
}

TEST_CASE("another version of NCCL is refused with both named", "[nccl_ids]") {
  const variables set = {{"DDPRUN_NCCL_IDS", "ab"}, {"DDPRUN_NCCL_VERSION", "23007"}};
  CHECK(ids_of(set, 23007).size() == 1);
  CHECK(ids_of(set).size() == 1);
  const std::string text = ids_error(set, 22809);
  CHECK(text.find("NCCL 2.28.9 is loaded here, and NCCL 2.30.7 has made") == 0);
}

TEST_CASE("many ids are fetched from the job store", "[nccl_ids]") {
  served_store server;
  store_client store = client_of(server);
  const variables set = {{"DDPRUN_NCCL_IDS", "store:ddprun/nccl_ids"}};
  SECTION("that are there") {
    REQUIRE_FALSE(store.set("ddprun/nccl_ids", "01,02,03", patience));
    const auto ids = ids_of(set, 0, at(server));
    REQUIRE(ids.size() == 3);
    CHECK(ids[2][0] == 3);
  }
  SECTION("that never come") {
    const std::string text = ids_error(set, 0, at(server), 50ms);
    CHECK(text.find("the NCCL ids are in the job store: rank 1 of 2: store at 127.0.0.1:") == 0);
  }
  SECTION("that are not ids") {
    REQUIRE_FALSE(store.set("ddprun/nccl_ids", "01,what", patience));
    CHECK(ids_error(set, 0, at(server)).find("'what' is not an NCCL id") != std::string::npos);
  }
}
