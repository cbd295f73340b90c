// Of several ports of a host, finds the one whose daemon holds the run.
#include "launcher/network/port_search.hpp"

#include "tests/support/answering_port.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/patience.hpp"

#include <boost/asio/io_context.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

namespace asio = boost::asio;
using tests::answering_port;

struct outcome {
  std::uint16_t port = 0;
  std::string problem;
};

outcome search(asio::io_context& context, std::vector<std::uint16_t> ports, duration limit) {
  std::optional<outcome> found;
  port_search searching(context.get_executor(), "127.0.0.1", std::move(ports), "slurm-1.0 x");
  searching.start(limit, [&](std::uint16_t port, std::string problem) {
    found = {port, std::move(problem)};
  });
  context.restart();
  while (!found)
    context.run_one();
  return *found;
}

}  // namespace

TEST_CASE("the run is found behind a daemon without it, a stranger and a silent one") {
  asio::io_context context;
  answering_port other(context, "HTTP/1.1 404 Not Found\r\n\r\n");
  answering_port stranger(context, "SSH-2.0-OpenSSH_9.2\r\n");
  answering_port silent(context, "");
  answering_port ours(context, "HTTP/1.1 200 OK\r\n\r\n");
  const outcome found = search(context, {other.port(), stranger.port(), silent.port(), ours.port()},
                               std::chrono::minutes(2));
  CHECK(found.port == ours.port());
  CHECK(ours.request().starts_with("GET /api/v1/runs/slurm-1.0%20x?limit=1 HTTP/1.1\r\n"));
}

TEST_CASE("a run that is opened later is found, too, and no word is sent after the stop") {
  asio::io_context context;
  answering_port daemon(context, "HTTP/1.1 404 Not Found\r\n\r\n");
  std::optional<std::uint16_t> found;
  port_search searching(context.get_executor(), "127.0.0.1", {daemon.port()}, "run");
  searching.start(std::chrono::minutes(2), [&](std::uint16_t at, std::string) { found = at; });
  while (daemon.asked() < 2)
    context.run_one();
  daemon.answer_from_now_on("HTTP/1.1 200 OK\r\n\r\n");
  while (!found)
    context.run_one();
  CHECK(*found == daemon.port());

  found.reset();
  searching.start(std::chrono::minutes(2), [&](std::uint16_t at, std::string) { found = at; });
  searching.stop();
  context.poll();
  CHECK_FALSE(found);
}

TEST_CASE("where the run is at no port it is said what was seen at each") {
  asio::io_context context;
  const tests::silent_port closed(context);
  answering_port other(context, "HTTP/1.1 404 Not Found\r\n\r\n");
  const std::vector<std::uint16_t> ports = {closed.port(), other.port()};
  const std::string last_words = ": a daemon that does not hold this run";
  // Where the machine has no time for both questions, a longer one.
  duration limit = std::chrono::milliseconds(300);
  outcome found = search(context, ports, limit);
  while (found.problem.find(last_words) == std::string::npos && (limit *= 2) < tests::patience)
    found = search(context, ports, limit);
  CHECK(found.port == 0);
  CHECK(found.problem.find("Connection refused") != std::string::npos);
  CHECK(found.problem.find(last_words) != std::string::npos);
}

}  // namespace ddprun::launcher
