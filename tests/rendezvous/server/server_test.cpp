// A whole daemon on a real port of loopback, and raw peers that send what PROTOCOL.md shows.
#include "rendezvous/protocol/agent_protocol.hpp"
#include "rendezvous/protocol/tcpstore.hpp"
#include "rendezvous/server/runs_json.hpp"
#include "tests/support/daemon_fixture.hpp"

#include <algorithm>
#include <memory>
#include <optional>

using namespace ddprun;
using namespace std::chrono_literals;
using protocol::tcpstore::opcode;
using fixture = tests::daemon_fixture;
using tests::raw_peer;
using tests::run_until;

namespace {

std::string session_of(int number) {
  std::string digits(32, '0');
  digits.back() = static_cast<char>('0' + number);
  return digits;
}

// With this hello an agent may be silent for a whole test, unless its settings shorten the timeout.
std::string hello_line(int number, int nodes, const std::string& node,
                       std::chrono::microseconds node_timeout = 1h) {
  return R"({"type":"hello","protocol":4,"run_id":"r","session":")" + session_of(number) +
         R"(","node":")" + node + R"(","settings":{"nodes_min":)" + std::to_string(nodes) +
         R"(,"nodes_max":)" + std::to_string(nodes) + R"(,"timing":{"node_timeout_us":)" +
         std::to_string(node_timeout.count()) + "}}}\n";
}

const std::string http_end = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

}  // namespace

TEST_CASE("agents are welcomed, told which nodes they wait for, and answered") {
  fixture f;
  raw_peer one(f.io, f.port);
  one.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(one, R"("type":"welcome")"));
  REQUIRE(f.hears(one, "waiting for 1 of 2 nodes; here: node-a (1 worker)"));
  // Two messages in one segment.
  one.say("{\"type\":\"status\",\"seq\":1}\n{\"type\":\"status\",\"seq\":2}\n");
  REQUIRE(f.hears(one, R"({"type":"ack","seq":2})"));
  CHECK(f.daemon->agent_count() == 1);
  one.say("{\"type\":\"goodbye\",\"session\":\"" + session_of(1) + "\"}\n");
  REQUIRE(f.closes(one));
  CHECK(f.daemon->agent_count() == 0);
}

TEST_CASE("two agents are led into a round") {
  fixture f;
  raw_peer one(f.io, f.port);
  raw_peer two(f.io, f.port);
  one.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(one, R"("phase":"wait")"));
  two.say(hello_line(2, 2, "node-b"));
  REQUIRE(f.hears(one, R"("phase":"prepare")"));
  const std::string heard = one.heard();
  const std::size_t prepare = heard.find("\"instance\":\"", heard.rfind('\n', heard.size() - 2));
  REQUIRE(prepare != std::string::npos);
  const std::string instance =
      heard.substr(prepare + 12, heard.find('"', prepare + 12) - prepare - 12);
  one.say("{\"type\":\"status\",\"seq\":1,\"instance\":\"" + instance +
          "\",\"round\":1,\"phase\":\"preparing\",\"service_port\":4000,\"master_port\":4000}\n");
  REQUIRE(f.hears(one, R"("phase":"run")"));
  REQUIRE(f.hears(two, R"("phase":"run")"));
  CHECK(two.heard().find(R"("group_rank":1,"group_world_size":2,"rank_first":1,"world_size":2)") !=
        std::string::npos);
}

// Agents of an earlier daemon connect in the meantime, and the first one that is heard must not
// decide alone.
TEST_CASE("the recovery window stands still with the daemon, also before it knows of any run") {
  fixture f({}, 2s);
  tests::run_ready(f.io);
  // This test makes the loop stand still, so there is no event to wait for.
  const time_point until = std::chrono::steady_clock::now() + 2500ms;
  while (std::chrono::steady_clock::now() < until) {
  }
  raw_peer one(f.io, f.port);
  one.say(hello_line(1, 1, "node-a"));
  REQUIRE(f.hears(one, R"("type":"desired")"));
  CHECK(one.heard().find("the daemon has just started") != std::string::npos);
  CHECK(f.hears(one, R"("phase":"prepare")"));
}

TEST_CASE("a hello may come in any pieces") {
  fixture f;
  const std::string line = hello_line(1, 2, "node-a");
  raw_peer peer(f.io, f.port);
  for (const char byte : line) {
    peer.say({&byte, 1});
    tests::run_ready(f.io);
  }
  REQUIRE(f.hears(peer, R"("type":"welcome")"));
}

TEST_CASE("what cannot be read ends the session with a sentence") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{nonsense\n", "line: is not JSON from byte "},
      {"{\"type\":\"status\",\"seq\":1}\n", "the first message of a session is its hello"},
      {"{\"type\":\"tether_beat\",\"seq\":1}\n", "a tether belongs to the leader of the round"},
      {"{\"type\":\"desired\",\"phase\":\"run\"}\n", "is not expected on this connection"},
      {R"({"type":"hello","protocol":7,"version":"9"})"
       "\n",
       "this node speaks version 7 (ddprun 9), the rendezvous daemon version 4 (ddprun 0.1.0)"},
      {hello_line(1, 2, "node-a") + hello_line(1, 2, "node-a"), "a session says hello once"},
      {hello_line(1, 2, "node-a") + "{\"type\":\"status\",\"phase\":\"flying\"}\n",
       "is no phase that this version knows"},
  };
  for (const auto& [said, expected] : cases) {
    fixture f;
    raw_peer peer(f.io, f.port);
    peer.say(said);
    INFO(said);
    REQUIRE(f.hears(peer, expected));
    REQUIRE(f.closes(peer));
    CHECK(f.daemon->agent_count() == 0);
  }
}

TEST_CASE("an agent of another version of the protocol is named in the log, once") {
  fixture f;
  raw_peer peer(f.io, f.port);
  peer.say("{\"type\":\"hello\",\"protocol\":7,\"version\":\"9\"}\n");
  REQUIRE(f.closes(peer));
  const std::string said =
      "refused 127.0.0.1: hello.protocol: of the agent protocol this node speaks version 7 (ddprun "
      "9), the rendezvous daemon version 4 (ddprun 0.1.0): use the same version of ddprun on every "
      "node";
  CHECK(std::count(f.log.begin(), f.log.end(), said) == 1);
}

TEST_CASE("strangers are closed promptly and without an answer") {
  for (const std::string first : {"\x16\x03\x01", "SSH-2.0-x\r\n", "\xFF", " {", "GETTING /"}) {
    fixture f;
    raw_peer peer(f.io, f.port);
    peer.say(first);
    REQUIRE(f.closes(peer));
    CHECK(peer.heard().empty());
    CHECK(f.log.size() == 1);
  }
}

TEST_CASE("many peers that leave without a word hide no stranger from the log") {
  fixture f;
  const auto lines_with = [&](const std::string& words) {
    return std::count_if(f.log.begin(), f.log.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  };
  const long most = log_limit::lines_at_once;
  for (long left = 0; left < most; ++left) {
    { const raw_peer checker(f.io, f.port); }
    REQUIRE(run_until(f.io, [&] { return lines_with("left without sending anything") > left; }));
  }
  raw_peer stranger(f.io, f.port);
  stranger.say("\xff nobody speaks this");
  CHECK(f.closes(stranger));
  CHECK(lines_with("does not serve") == 1);
}

TEST_CASE("a peer that sends nothing, or no complete line, is closed at the limit") {
  server::server_options options;
  options.daemon.hello_limit = 50ms;
  fixture f(std::move(options));
  raw_peer silent(f.io, f.port);
  raw_peer slow(f.io, f.port);
  slow.say("{\"type\":");
  REQUIRE(f.closes(silent));
  REQUIRE(f.hears(slow, "no hello within 50 ms"));
  REQUIRE(f.closes(slow));
}

TEST_CASE("a line without end is cut off") {
  fixture f;
  raw_peer peer(f.io, f.port);
  peer.socket().non_blocking(false);
  peer.say("{" + std::string(hello_bytes_max, 'x'));
  peer.socket().non_blocking(true);
  REQUIRE(f.closes(peer));
}

TEST_CASE("HTTP: health, runs, and one line for everything else") {
  fixture f;
  raw_peer agent(f.io, f.port);
  agent.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(agent, R"("phase":"wait")"));

  raw_peer health(f.io, f.port);
  health.say("G");
  tests::run_ready(f.io);
  health.say("ET /healthz" + http_end);
  REQUIRE(f.closes(health));
  CHECK(health.heard().starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(health.heard().ends_with("\r\n\r\nok\n"));

  raw_peer runs(f.io, f.port);
  runs.say("GET /api/v1/runs?x=1" + http_end);
  REQUIRE(f.closes(runs));
  CHECK(runs.heard().find("waiting for 1 of 2 nodes; here: node-a") != std::string::npos);
  CHECK(runs.heard().find("\"phase\": \"gathering\"") != std::string::npos);
  CHECK(runs.heard().find("application/json") != std::string::npos);

  const std::vector<std::pair<std::string, std::string>> others = {
      {"GET /" + http_end, "404 Not Found"},
      {"POST /healthz" + http_end, "405 Method Not Allowed"},
      {"GET nonsense\r\n\r\n", "400 Bad Request"},
      {"HEAD /healthz" + http_end, "200 OK"},
      {"GET /healthz HTTP/1.1\r\nA: " + std::string(20'000, 'x') + "\r\n\r\n", "400 Bad Request"},
  };
  for (const auto& [said, expected] : others) {
    raw_peer peer(f.io, f.port);
    peer.say(said);
    INFO(said.substr(0, 100));
    REQUIRE(f.hears(peer, expected));
  }
}

TEST_CASE("HTTP: a run of many nodes is shown page by page, and every node once") {
  fixture f;
  constexpr int agents = 230;
  std::vector<std::unique_ptr<raw_peer>> peers;
  for (int number = 0; number < agents; ++number) {
    peers.push_back(std::make_unique<raw_peer>(f.io, f.port));
    std::string line = hello_line(1, 300, "node-" + std::to_string(number) + "-");
    const std::string id = std::to_string(1000 + number);
    line.replace(line.find("0001\",\"node"), 4, id);
    peers.back()->say(line);
    REQUIRE(f.hears(*peers.back(), R"("type":"welcome")"));
  }
  const auto get = [&](const std::string& target) {
    raw_peer peer(f.io, f.port);
    peer.say("GET " + target + http_end);
    REQUIRE(f.closes(peer));
    return peer.heard();
  };
  const auto count = [](const std::string& text, const std::string& word) {
    long found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      ++found;
    return found;
  };
  const std::string all = get("/api/v1/runs");
  CHECK(count(all, "\"node\": ") == long(server::members_per_page));
  CHECK(count(all, "\"member_count\": 230") == 1);
  CHECK(all.size() < 100'000);
  std::string seen;
  std::string next = "/api/v1/runs/r?offset=0&limit=90&x=y";
  int pages = 0;
  while (!next.empty()) {
    const std::string page = get(next);
    REQUIRE(page.starts_with("HTTP/1.1 200 OK"));
    CHECK(count(page, "\"node\": ") <= long(server::members_per_page));
    seen += page;
    const std::size_t at = page.find("\"next\": \"");
    next = at == std::string::npos ? "" : page.substr(at + 9, page.find('"', at + 9) - at - 9);
    REQUIRE(++pages < 10);
  }
  CHECK(pages == 3);
  for (int number = 0; number < agents; ++number)
    CHECK(count(seen, "\"node\": \"node-" + std::to_string(number) + "-\"") == 1);
  CHECK(get("/api/v1/runs/nobody").find("404 Not Found") != std::string::npos);
  CHECK(get("/api/v1/runs/r?offset=x").find("400 Bad Request") != std::string::npos);
  CHECK(get("/api/v1/runs/%72?offset=9999").find("\"members\": []") != std::string::npos);
}

TEST_CASE("many runs are listed page by page, and their members share the page") {
  server::runs_page page;
  page.run_count = 3;
  page.first = 1;
  page.runs.resize(1);
  page.runs[0].run_id = "job 1/\xC3\xA4";
  page.runs[0].member_count = 5;
  const std::string text = server::runs_json(page);
  CHECK(text.find("\"next\": \"/api/v1/runs?offset=2\"") != std::string::npos);
  CHECK(text.find("\"next\": \"/api/v1/runs/job%201%2F%C3%A4?offset=0\"") != std::string::npos);
  CHECK(server::from_url("job%201%2F%C3%A4") == "job 1/\xC3\xA4");
  CHECK(server::from_url("%zz%4") == "%zz%4");
}

TEST_CASE("a run whose ranks stand still is shown with the rank that hangs, if that can be told") {
  server::runs_page page;
  page.runs.resize(2);
  page.runs[0].stall = core::stall_view{2, 21500ms, "rank 2 hangs: no rank has moved"};
  page.runs[1].stall = core::stall_view{std::nullopt, 21s, "no rank has moved"};
  const std::string text = server::runs_json(page);
  CHECK(text.find("\"stall\": {\n        \"rank\": 2,\n        \"for_s\": 21.5,\n        \"text\": "
                  "\"rank 2 hangs: no rank has moved\"\n") != std::string::npos);
  CHECK(text.find("\"stall\": {\n        \"for_s\": 21.0,") != std::string::npos);
  page.runs.resize(1);
  page.runs[0].stall.reset();
  CHECK(server::runs_json(page).find("stall") == std::string::npos);
}

TEST_CASE("answers over HTTP leave the rounds most of the time") {
  server::http_pace pace;
  const time_point now{1h};
  CHECK(pace.next(now) == now);
  CHECK(pace.next(now) == now + server::http_pace::interval);
  CHECK(pace.next(now + 5ms) == now + 2 * server::http_pace::interval);
  CHECK(pace.next(now + 1s) == now + 1s);
}

TEST_CASE("TCPStore clients share the daemon's keyspace") {
  using namespace std::string_literals;
  fixture f;
  raw_peer peer(f.io, f.port);
  // VALIDATE, then PING with a nonce, which the daemon echoes.
  peer.say("\x00\xCE\xF7\x85\x3C"s);
  peer.say("\x0D\x2A\x00\x00\x00"s);
  REQUIRE(run_until(f.io, [&] { return peer.heard().size() == 4; }));
  CHECK(peer.heard() == "\x2A\x00\x00\x00"s);
}

TEST_CASE("TCPStore has a memory cap of its own, which costs the agents nothing") {
  server::server_options options;
  options.store_limits.bytes_max = 4096;
  fixture f(options);
  raw_peer agent(f.io, f.port);
  agent.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(agent, "waiting for 1 of 2 nodes"));
  std::string request;
  protocol::tcpstore::append_request(request, opcode::validate, {},
                                     protocol::tcpstore::validate_magic);
  protocol::tcpstore::append_request(request, opcode::set, {"/k", std::string(8192, 'x')});
  raw_peer greedy(f.io, f.port);
  greedy.say(request);
  CHECK(f.closes(greedy));
  REQUIRE(run_until(f.io, [&] { return !f.log.empty() && f.log.back().starts_with("store: "); }));
  const std::size_t lines = agent.lines();
  agent.say("{\"type\":\"status\",\"seq\":1}\n");
  CHECK(run_until(f.io, [&] { return agent.lines() > lines; }));
  CHECK_FALSE(agent.closed());
}

TEST_CASE("a guardian's word ends its session, known or not") {
  fixture f;
  raw_peer peer(f.io, f.port);
  peer.say(R"({"type":"guardian_word","run_id":"r","session":")" + session_of(1) + "\"}\n");
  REQUIRE(f.closes(peer));
  CHECK(peer.heard().empty());
}

TEST_CASE("an agent that is silent is lost, and one that speaks is not") {
  fixture f;
  raw_peer silent(f.io, f.port);
  raw_peer speaker(f.io, f.port);
  silent.say(hello_line(1, 3, "node-a", 300ms));
  speaker.say(hello_line(2, 3, "node-b", 300ms));
  REQUIRE(f.hears(speaker, R"("type":"welcome")"));
  int seq = 0;
  REQUIRE(run_until(f.io, [&] {
    speaker.say("{\"type\":\"status\",\"seq\":" + std::to_string(++seq) + "}\n");
    return silent.closed();
  }));
  CHECK_FALSE(speaker.closed());
  CHECK(f.daemon->agent_count() == 1);
}

TEST_CASE("a daemon that stops closes its agents and frees its port") {
  fixture f;
  raw_peer peer(f.io, f.port);
  peer.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(peer, R"("type":"welcome")"));
  f.daemon->stop();
  REQUIRE(f.closes(peer));
  server::server again(f.io.get_executor(), {.bind_address = "127.0.0.1", .port = f.port});
  std::string problem;
  CHECK(again.start(problem).has_value());
  tests::run_ready(f.io);
}

TEST_CASE("beyond the most agents, one is told so") {
  server::server_options options;
  options.daemon.agents_max = 1;
  fixture f(std::move(options));
  raw_peer first(f.io, f.port);
  first.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(first, R"("type":"welcome")"));
  raw_peer second(f.io, f.port);
  second.say(hello_line(2, 2, "node-b"));
  REQUIRE(f.hears(second, "this daemon serves at most 1 agents"));
  // An agent that runs workers would kill them after a refusal, so it may come again.
  raw_peer third(f.io, f.port);
  std::string line = hello_line(3, 2, "node-c");
  line.replace(line.rfind("}\n"), 2,
               R"(,"state":{"seq":1,"instance":"1","round":1}})"
               "\n");
  third.say(line);
  REQUIRE(f.closes(third));
  CHECK(third.heard().empty());
  // An agent that is already here takes its own place.
  raw_peer again(f.io, f.port);
  again.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(again, R"("type":"welcome")"));
  REQUIRE(f.closes(first));
}

TEST_CASE("a stranger that has said half a hello delays no end") {
  fixture f;
  raw_peer agent(f.io, f.port);
  agent.say(hello_line(1, 2, "node-a"));
  REQUIRE(f.hears(agent, R"("type":"welcome")"));
  raw_peer stranger(f.io, f.port);
  stranger.say("{");
  REQUIRE(run_until(f.io, [&] { return f.daemon->agent_count() == 2; }));
  bool none = false;
  f.daemon->when_no_agents([&] { none = true; });
  tests::run_ready(f.io);
  CHECK_FALSE(none);
  agent.say("{\"type\":\"goodbye\",\"session\":\"" + session_of(1) + "\"}\n");
  REQUIRE(run_until(f.io, [&] { return none; }));
  CHECK_FALSE(stranger.closed());
}
