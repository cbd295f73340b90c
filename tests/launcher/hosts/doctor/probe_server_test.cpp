#include "launcher/hosts/doctor/probe_server.hpp"

#include "launcher/hosts/doctor/probe.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/patience.hpp"
#include "worker/blocking_stream.hpp"

using namespace ddprun::launcher::doctor;
using namespace std::chrono_literals;
using ddprun::worker::blocking_stream;

namespace {

constexpr auto generous = ddprun::tests::patience;
constexpr probe_limits slow_machine = {.connect = generous, .reply = generous, .bulk = generous};

// A connection that sends only this.
blocking_stream stranger(std::uint16_t port, const std::string& word) {
  std::string problem;
  auto stream = blocking_stream::dial("127.0.0.1", port, 0s, generous, problem);
  REQUIRE(stream.has_value());
  CHECK_FALSE(stream->send(word, generous));
  return std::move(*stream);
}

bool is_closed(blocking_stream& stream) {
  std::string received;
  const auto error = stream.receive(received, 1, generous);
  return error == ddprun::errc::connection_closed;
}

}  // namespace

TEST_CASE("a probe port answers its own nodes, even if strangers are connected") {
  const std::string token(32, 'a');
  probe_server server(token, {.silence_max = generous, .guests_max = 2});
  std::string problem;
  REQUIRE(server.start(2, problem));
  REQUIRE(server.ports().size() == 2);
  blocking_stream silent = stranger(server.ports()[0], "");
  blocking_stream second = stranger(server.ports()[1], "ddprun");
  // There is room for two, so the strangers are closed.
  const probe_result known = probe({"127.0.0.1", server.ports()[0], token, true}, slow_machine);
  CHECK(known.path.what == path_answer::ok);
  CHECK(known.round_trip);
  CHECK(known.clock_ahead);
  CHECK(is_closed(silent));
  const std::string other(32, 'b');
  const probe_result wrong = probe({"127.0.0.1", server.ports()[1], other, false}, slow_machine);
  CHECK(wrong.path.what == path_answer::other_node);
  CHECK(wrong.path.words == token);
  const probe_target last = {"127.0.0.1", server.ports()[1], token, false};
  CHECK(measure_speed(last, 10ms, slow_machine).value_or(0) > 0);
}

TEST_CASE("strangers at a probe port are closed, and silent ones in time") {
  probe_server server(std::string(32, 'a'), {.silence_max = 50ms, .guests_max = 10});
  std::string problem;
  REQUIRE(server.start(1, problem));
  blocking_stream silent = stranger(server.ports()[0], "");
  blocking_stream loud = stranger(server.ports()[0], "GET / HTTP/1.1\r\n\r\n");
  CHECK(is_closed(silent));
  CHECK(is_closed(loud));
}

TEST_CASE("a port without a listener refuses") {
  boost::asio::io_context io;
  const ddprun::tests::silent_port silent(io);
  const probe_target nobody = {"127.0.0.1", silent.port(), std::string(32, 'a'), true};
  CHECK(probe(nobody, slow_machine).path.what == path_answer::refused);
}
