#include "rendezvous/journal/state_folder.hpp"

#include "tests/support/catch.hpp"

#include <map>

namespace {

std::string folder_with(const std::map<std::string, std::string>& variables) {
  const auto look = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return ddprun::journal::default_state_folder(look, "node-a", 29400);
}

}  // namespace

TEST_CASE("what outlives a daemon lies where the system says") {
  CHECK(folder_with({{"STATE_DIRECTORY", "/var/lib/ddprun"}, {"HOME", "/root"}}) ==
        "/var/lib/ddprun/node-a-29400");
  CHECK(folder_with({{"STATE_DIRECTORY", "/a:/b"}}) == "/a/node-a-29400");
  CHECK(folder_with({{"XDG_STATE_HOME", "/state"}, {"HOME", "/home/x"}}) ==
        "/state/ddprun/node-a-29400");
  CHECK(folder_with({{"HOME", "/home/x"}}) == "/home/x/.local/state/ddprun/node-a-29400");
  CHECK(folder_with({{"XDG_STATE_HOME", "not/absolute"}, {"HOME", "/home/x"}}) ==
        "/home/x/.local/state/ddprun/node-a-29400");
  CHECK(folder_with({{"XDG_STATE_HOME", ""}, {"HOME", ""}}).empty());
  CHECK(folder_with({}).empty());
}
