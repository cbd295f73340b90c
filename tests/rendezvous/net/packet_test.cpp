#include "rendezvous/net/packet.hpp"

#include "tests/support/catch.hpp"

#include <unistd.h>

using namespace ddprun;
using namespace ddprun::net;

TEST_CASE("a packet comes whole, with its descriptors, and the end of the other side is seen") {
  auto sockets = make_packet_sockets();
  REQUIRE(sockets.has_value());
  auto pipe = make_pipe();
  REQUIRE(pipe.has_value());
  CHECK_FALSE(receive_packet(sockets->ours.get()).has_value());  // there is none
  REQUIRE_FALSE(send_packet(sockets->theirs.get(), "spare 12", {pipe->write.get()}));
  REQUIRE_FALSE(send_packet(sockets->theirs.get(), "ready 3"));
  const auto first = receive_packet(sockets->ours.get());
  REQUIRE(first.has_value());
  CHECK(first->text == "spare 12");
  REQUIRE(first->descriptors.size() == 1);
  REQUIRE(::write(first->descriptors.front().get(), "x", 1) == 1);
  char byte = 0;
  REQUIRE(::read(pipe->read.get(), &byte, 1) == 1);
  CHECK(byte == 'x');
  const auto second = receive_packet(sockets->ours.get());
  REQUIRE(second.has_value());
  CHECK(second->text == "ready 3");
  CHECK(second->descriptors.empty());
  sockets->theirs.reset();
  const auto last = receive_packet(sockets->ours.get());
  REQUIRE(last.has_value());
  CHECK(last->text.empty());
  CHECK(send_packet(sockets->ours.get(), "work"));
}
