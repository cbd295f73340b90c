#include "rendezvous/protocol/sniff.hpp"

#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/support/catch.hpp"

#include <string>

using namespace ddprun::protocol;
using namespace std::string_literals;

TEST_CASE("the first bytes tell the protocols of the port apart") {
  CHECK(sniff("") == wire::undecided);
  CHECK(sniff("{") == wire::agent);
  CHECK(sniff("\x00"s) == wire::tcpstore);
  CHECK(sniff("\x00\xCE\xF7\x85\x3C"s) == wire::tcpstore);
  CHECK(sniff("\x16") == wire::tls);
  CHECK(sniff("\x16\x03\x01") == wire::tls);
  CHECK(sniff("GET /healthz HTTP/1.1\r\n") == wire::http);
  CHECK(sniff("SSH-2.0-OpenSSH_9.2\r\n") == wire::unknown);
  CHECK(sniff("GETX") == wire::unknown);
  CHECK(sniff("get /") == wire::unknown);
  CHECK(sniff(" {") == wire::unknown);
  CHECK(sniff("\xFF") == wire::unknown);
}

TEST_CASE("a method is undecided at every prefix and decided by its blank") {
  for (const std::string method :
       {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"}) {
    for (std::size_t size = 1; size <= method.size(); ++size) {
      CHECK(sniff(method.substr(0, size)) == wire::undecided);
    }
    CHECK(method.size() + 1 <= sniff_bytes_max);
    CHECK(sniff(method + " ") == wire::http);
  }
}

TEST_CASE("a tether's first line is told from a session's, whatever has come of it") {
  const std::string tether =
      ddprun::protocol::encode(ddprun::agent_message(ddprun::tether_hello{}));
  for (std::size_t size = 1; size < tether.size(); ++size) {
    const agent_line expected =
        size < agent_sniff_bytes ? agent_line::undecided : agent_line::tether;
    INFO(size);
    CHECK(sniff_agent_line(tether.substr(0, size)) == expected);
  }
  for (const ddprun::agent_message& message :
       {ddprun::agent_message(ddprun::hello{}), ddprun::agent_message(ddprun::guardian_word{})}) {
    const std::string line = ddprun::protocol::encode(message);
    CHECK(sniff_agent_line(line.substr(0, agent_sniff_bytes)) == agent_line::session);
  }
  CHECK(sniff_agent_line("{\"phase\"") == agent_line::session);
}

TEST_CASE("sniff_bytes_max bytes always decide") {
  for (int first = 0; first < 256; ++first) {
    const std::string bytes(sniff_bytes_max, static_cast<char>(first));
    CHECK(sniff(bytes) != wire::undecided);
  }
}
