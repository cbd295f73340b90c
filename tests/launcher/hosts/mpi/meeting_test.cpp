// Where the members of an MPI job meet, from what each publishes about its host.
#include "launcher/hosts/mpi/hnp_uri.hpp"
#include "launcher/hosts/mpi/mpi_meeting.hpp"
#include "tests/support/catch.hpp"

#include <map>

namespace ddprun::launcher::hosts::mpi {
namespace {

address at(const std::string& text) {
  return boost::asio::ip::make_address(text);
}

card card_with(std::initializer_list<const char*> texts) {
  card made;
  for (const char* const text : texts)
    made.addresses.push_back(at(text));
  return made;
}

// A host with a default route by eth0, another network by ib0, and a bridge that every host has.
host_facts first_host() {
  host_facts host;
  host.addresses = {at("127.0.0.1"), at("10.0.0.1"), at("192.168.5.1"), at("172.17.0.1"),
                    at("fe80::1"),   at("fd00::1"),  at("::1")};
  host.towards = [](const address& other) -> std::optional<address> {
    const std::string text = other.to_string();
    if (text.starts_with("192.168.5.")) return at("192.168.5.1");
    if (text.starts_with("fd00:")) return at("fd00::1");
    if (text.starts_with("203.")) return std::nullopt;
    return at("10.0.0.1");
  };
  host.free_port = [] { return std::uint16_t{23456}; };
  host.new_run_id = [] { return "mpi-1"; };
  return host;
}

// All ranks are in one process and `put` is visible at once, so the test decides their order.
struct fake_board final : exchange {
  cli::checked put(const std::string& key, const std::string& value) override {
    values[key] = value;
    return {};
  }
  cli::checked fence() override {
    ++fences;
    return {};
  }
  cli::parsed<std::string> get(std::uint32_t, const std::string& key) override {
    if (values.count(key) == 0) return cli::usage_error{"no " + key};
    return good(values[key]);
  }
  cli::checked finish() override { return {}; }
  std::map<std::string, std::string> values;
  int fences = 0;
};

}  // namespace

TEST_CASE("mpi: rank 0 is met at the address from which most others are reached") {
  const host_facts host = first_host();
  CHECK(reachable_address(host, {card_with({"10.0.0.2"})}) == at("10.0.0.1"));
  CHECK(reachable_address(host, {card_with({"10.0.0.2", "192.168.5.2"}),
                                 card_with({"192.168.5.3"})}) == at("192.168.5.1"));
  // Both networks are common to both hosts: the first in this host's own order wins, IPv4 before
  // IPv6.
  CHECK(reachable_address(host, {card_with({"fd00::2", "192.168.5.2", "10.0.0.2"})}) ==
        at("10.0.0.1"));
  CHECK(reachable_address(host, {card_with({"fd00::2"})}) == at("fd00::1"));
}

TEST_CASE("mpi: a bridge that has the same address on every host is no way to another") {
  const host_facts host = first_host();
  CHECK(reachable_address(host, {card_with({"172.17.0.1", "192.168.5.2"})}) == at("192.168.5.1"));
  CHECK_FALSE(reachable_address(host, {card_with({"203.0.113.7"})}));
}

TEST_CASE("mpi: members that are all on this host meet on loopback") {
  CHECK(reachable_address(first_host(), {card_with({"10.0.0.1", "172.17.0.1"}), card{}}) ==
        at("127.0.0.1"));
}

TEST_CASE("mpi: a card has what another host may use, as much as fits") {
  host_facts host = first_host();
  host.addresses.push_back(at("169.254.3.4"));
  CHECK(to_text(card_of(host)) == "-,10.0.0.1,192.168.5.1,172.17.0.1,fd00::1");
  host.addresses.assign(200, at("10.0.0.1"));
  host.tags_lines = true;
  const std::string text = to_text(card_of(host));
  CHECK(text.size() <= exchange::value_bytes_max);
  CHECK(text.size() > exchange::value_bytes_max - 20);
  CHECK(read_card(text)->tags_lines);
}

TEST_CASE("mpi: all ranks learn what rank 0 has chosen, and whether any of them has seen tags") {
  fake_board board;
  board.values["ddprun-card-1"] = "tags,10.0.0.2";
  const auto chosen = meet(board, 0, 2, first_host());
  REQUIRE(chosen.has_value());
  CHECK(chosen->host == "10.0.0.1");
  CHECK(chosen->port == 23456);
  CHECK(chosen->run_id == "mpi-1");
  CHECK(chosen->tags_lines);
  const auto learned = meet(board, 1, 2, first_host());
  REQUIRE(learned.has_value());
  CHECK(to_text(*learned) == to_text(*chosen));
  CHECK(board.fences == 4);
}

TEST_CASE("mpi: a board with something else on it is refused") {
  for (const std::string text : {"", "10.0.0.2", "-,10.0.0.256", "-,", "x,10.0.0.1"}) {
    fake_board board;
    board.values["ddprun-card-1"] = text;
    CHECK(meet(board, 0, 2, first_host()).has_error());
  }
  for (const std::string text : {"", "10.0.0.1,1,id", "node,1,id,-", "10.0.0.1,0,id,-",
                                 "10.0.0.1,70000,id,-", "10.0.0.1,1,,-", "10.0.0.1,1,id,?"}) {
    fake_board board;
    board.values["ddprun-meeting"] = text;
    CHECK(meet(board, 1, 2, first_host()).has_error());
  }
}

TEST_CASE("mpi: mpirun's own address is for want of anything better") {
  const std::string uri =
      "1474560000.0;tcp://127.0.0.1,10.0.0.1,172.17.0.1:551;tcp6://[fd00::1]:41";
  CHECK(addresses_of_mpirun(uri).size() == 4);
  CHECK(addresses_of_mpirun("nonsense").empty());
  const auto first = meet_at_mpirun(uri, 0, first_host());
  const auto second = meet_at_mpirun(uri, 1, host_facts{});
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(first->host == "10.0.0.1");
  CHECK(to_text(*first) == to_text(*second));
  CHECK(to_text(*meet_at_mpirun(uri + "x", 1, {})) != to_text(*first));
  const auto elsewhere = meet_at_mpirun("1.0;tcp://10.0.0.9:1", 0, first_host());
  REQUIRE(elsewhere.has_error());
  CHECK(elsewhere.error().text ==
        "libpmix is not installed, and mpirun's own host, 10.0.0.9, is not the host of "
        "rank 0");
  CHECK(meet_at_mpirun("1.0;tcp://127.0.0.1:1", 0, first_host()).has_error());
}

}  // namespace ddprun::launcher::hosts::mpi
