#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/full_messages.hpp"

#include <string>

using namespace ddprun;
using namespace ddprun::protocol;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

std::string without_newline(std::string line) {
  REQUIRE(line.ends_with('\n'));
  line.pop_back();
  REQUIRE(line.find('\n') == std::string::npos);
  return line;
}

std::string problem_of_agent(std::string_view line) {
  std::string problem;
  const auto message = decode_agent_message(line, &problem);
  REQUIRE(message.has_error());
  return problem + " [" + message.error().message() + "]";
}

}  // namespace

TEST_CASE("agent messages come back as they were sent") {
  const std::vector<agent_message> messages = {
      full_hello(),
      full_status(),
      status{},
      hello{.run_id = "r", .session = someone},
      goodbye{someone},
      guardian_word{"digits", someone},
      guardian_word{"digits", someone, 5, 7, 1, "node-a", 2, 2},
      tether_hello{7, 3, someone, 2, 5},
      tether_beat{12, true}};
  for (const auto& message : messages) {
    std::string problem;
    const auto back = decode_agent_message(without_newline(encode(message)), &problem);
    INFO(problem);
    REQUIRE(back.has_value());
    CHECK(*back == message);
  }
}

TEST_CASE("daemon messages and tether replies come back as they were sent") {
  const std::vector<daemon_message> messages = {welcome{2, "0.1.0", timers_for(3s)}, ack{7},
                                                desired{}, full_desired(),
                                                refused{refused_exit_code, "why"}};
  for (const auto& message : messages) {
    const auto back = decode_daemon_message(without_newline(encode(message)));
    REQUIRE(back.has_value());
    CHECK(*back == message);
  }
  for (const tether_reply& message : {tether_reply{tether_ack{3}}, tether_reply{refused{}}}) {
    const auto back = decode_tether_reply(without_newline(encode(message)));
    REQUIRE(back.has_value());
    CHECK(*back == message);
  }
}

TEST_CASE("golden lines") {
  CHECK(encode(agent_message(goodbye{someone})) ==
        "{\"type\":\"goodbye\",\"session\":\"0123456789abcdeffedcba9876543210\"}\n");
  CHECK(encode(daemon_message(ack{7})) == "{\"type\":\"ack\",\"seq\":7}\n");
  CHECK(encode(agent_message(tether_hello{0xabc, 3, someone, 2})) ==
        "{\"type\":\"tether_hello\",\"instance\":\"abc\",\"round\":3,"
        "\"session\":\"0123456789abcdeffedcba9876543210\",\"group_rank\":2}\n");
  desired stop;
  stop.instance = 255;
  stop.round = 2;
  stop.seq = 5;
  stop.phase = desired_phase::stop;
  stop.grace = 5s;
  stop.text = "rank 1 \"failed\"";
  CHECK(encode(daemon_message(stop)) ==
        "{\"type\":\"desired\",\"instance\":\"ff\",\"round\":2,\"seq\":5,\"phase\":\"stop\","
        "\"grace_us\":5000000,\"text\":\"rank 1 \\\"failed\\\"\"}\n");
  desired run;
  run.instance = 255;
  run.round = 2;
  run.seq = 4;
  run.phase = desired_phase::run;
  run.assignment = full_assignment();
  run.assignment->leader_data = {};
  CHECK(encode(daemon_message(run)) ==
        "{\"type\":\"desired\",\"instance\":\"ff\",\"round\":2,\"seq\":4,\"phase\":\"run\","
        "\"assignment\":{\"group_rank\":1,\"group_world_size\":2,\"rank_first\":4,\"world_size\":8,"
        "\"in_role\":{\"rank_first\":1,\"world_size\":5},"
        "\"master_address\":\"2001:db8::1\",\"master_port\":41234,\"tether_port\":41235,"
        "\"leader_node\":\"node-a\"}}\n");
}

TEST_CASE("a short hello that a person types has the defaults") {
  const auto message = decode_agent_message(
      R"({"type":"hello","protocol":4,"run_id":"r","session":"00000000000000000000000000000001",)"
      R"("settings":{"timing":{"node_timeout_us":3000000}},"new_field":[1,{"x":null}]})");
  REQUIRE(message.has_value());
  const hello& greeting = std::get<hello>(*message);
  CHECK(greeting.worker_count == 1);
  CHECK(greeting.settings.timing == timers_for(3s));
  CHECK(greeting.state == status{});
}

TEST_CASE("no prefix and no damaged byte of a line crashes or is taken for the message") {
  const std::string line = without_newline(encode(agent_message(full_hello())));
  for (const std::uint64_t size : cases_to_take(line.size(), 300)) {
    INFO("of " << size << " bytes");
    REQUIRE(decode_agent_message(std::string_view(line).substr(0, size)).has_error());
  }
  std::string damaged = line;
  for (const std::uint64_t at : cases_to_take(line.size(), 300)) {
    for (const char byte : {'\0', '"', '}', '9', '\xFF', '-'}) {
      damaged[at] = byte;
      (void)decode_agent_message(damaged);
      (void)decode_daemon_message(damaged);
    }
    damaged[at] = line[at];
  }
}

TEST_CASE("a refusal says what is wrong and where") {
  CHECK(problem_of_agent("{\"type\":") == "line: is not JSON from byte 9 on [malformed message]");
  CHECK(problem_of_agent("[]") == "message: is not an object [malformed message]");
  CHECK(problem_of_agent("{}") == "message.type: is missing [malformed message]");
  CHECK(problem_of_agent(R"({"type":7})") == "message.type: is not a string [malformed message]");
  CHECK(problem_of_agent(R"({"type":"ack","seq":1})") ==
        "message.type: \"ack\" is not expected on this connection [message of an unknown kind]");
  CHECK(problem_of_agent(R"({"type":"status","phase":"flying"})") ==
        "status.phase: \"flying\" is no phase that this version knows; use the same version of "
        "ddprun on every node [message of an unknown kind]");
  CHECK(problem_of_agent(R"({"type":"status","seq":-1})") ==
        "status.seq: -1 is not in 0 to 9007199254740992 [malformed message]");
  CHECK(problem_of_agent(R"({"type":"status","seq":1.5})") ==
        "status.seq: is not an integer [malformed message]");
  CHECK(problem_of_agent(R"({"type":"status","seq":99999999999999999999999})") ==
        "status.seq: is not an integer [malformed message]");
  CHECK(problem_of_agent(R"({"type":"status","seq":1e999})") ==
        "line: holds a number that is out of range [malformed message]");
  CHECK(problem_of_agent(R"({"type":"status","instance":"XYZ"})") ==
        "status.instance: is not a string of 1 to 16 hexadecimal digits [malformed message]");
  CHECK(problem_of_agent(R"({"type":"status","causes":[{"tail":")" + std::string(4097, 'x') +
                         "\"}]}") ==
        "status.causes[0].tail: 4097 bytes, the limit is 4096 [message longer than the limit]");
  CHECK(problem_of_agent(R"({"type":"status","causes":[{},{},{},{},{}]})") ==
        "status.causes: 5 items, the limit is 4 [message longer than the limit]");
  CHECK(problem_of_agent(R"({"type":"goodbye"})") ==
        "goodbye.session: is missing [malformed message]");
  CHECK(problem_of_agent(R"({"type":"hello","protocol":5,"version":"9.0"})") ==
        "hello.protocol: of the agent protocol this node speaks version 5 (ddprun 9.0), the "
        "rendezvous daemon version 4 (ddprun 0.1.0): use the same version of "
        "ddprun on every node [the peer's protocol version is not supported]");
  const std::string start =
      R"({"type":"hello","protocol":4,"run_id":"r","session":"00000000000000000000000000000001",)";
  CHECK(problem_of_agent(start + R"("settings":{"nodes_min":3,"nodes_max":2}})") ==
        "hello.settings.nodes_min: is over nodes_max [malformed message]");
  CHECK(problem_of_agent(start + R"("settings":{"restarts_max":1000000001}})") ==
        "hello.settings.restarts_max: 1000000001 is not in 0 to 1000000000 [malformed message]");
  // Timers that are derived from the given ones must be in range, too.
  CHECK(problem_of_agent(start + R"("settings":{"timing":{"heartbeat_interval_us":5000000}}})") ==
        "hello.settings.timing: isolation_limit is 0 s, and may be 0.0002 to 2592000 s "
        "[malformed message]");
  CHECK(problem_of_agent(start + R"("settings":{"timing":{"node_timeout_us":0}}})") ==
        "hello.settings.timing.node_timeout_us: 0 is not in 1000 to 2592000000000 "
        "[malformed message]");
  CHECK(problem_of_agent(start + R"("worker_count":0})") ==
        "hello.worker_count: 0 is not in 1 to 4096 [malformed message]");
}

TEST_CASE("depth and length are bounded") {
  CHECK(decode_agent_message(std::string(line_bytes_max - 1, '[')).has_error());
  std::string nested = R"({"type":"tether_beat","seq":1,"x":)";
  nested += std::string(20'000, '[') + std::string(20'000, ']') + "}";
  CHECK(decode_agent_message(nested).has_value());
  CHECK(problem_of_agent(std::string(line_bytes_max, ' ')) ==
        "line: 65536 bytes, the limit is 65535 [message longer than the limit]");
}

TEST_CASE("the worst status fits a line and can be read") {
  status worst = full_status();
  const std::string noise(100'000, '\x01');
  const std::string garbage(100'000, '\xFF');
  const std::string quotes(100'000, '"');
  worst.assignment->master_address = quotes;
  worst.assignment->leader_node = noise;
  worst.assignment->leader_data = {std::string(leader_data_bytes_max, 'x'), quotes};
  worst.leader_data = {std::string(leader_data_bytes_max, 'x'), quotes};
  cause bad = full_cause();
  bad.node = quotes;
  bad.text = quotes;
  bad.tail = quotes;
  worst.causes.assign(100, bad);
  worst.tether_ages.assign(100, {4'294'967'295, age_max});
  worst.stall->ranks.assign(100, {0, 1, stall_kind::waits, quotes});
  hello greeting = full_hello();
  greeting.version = greeting.token = greeting.run_id = greeting.node = greeting.host = quotes;
  greeting.address = greeting.own_address = garbage;
  greeting.state = worst;
  const std::string first_line = encode(agent_message(greeting));
  CHECK(first_line.size() <= hello_bytes_max);
  const auto first = decode_agent_message(without_newline(first_line));
  REQUIRE(first.has_value());
  const std::vector<cause>& told = std::get<hello>(*first).state.causes;
  REQUIRE(told.size() == causes_max);
  CHECK(told[0].tail == std::string(tail_bytes_max, '"'));
  CHECK(told[1].tail.empty());
  const std::string line = encode(agent_message(worst));
  CHECK(line.size() <= line_bytes_max);
  std::string problem;
  const auto back = decode_agent_message(without_newline(line), &problem);
  INFO(problem);
  REQUIRE(back.has_value());
  const auto& state = std::get<status>(*back);
  REQUIRE(state.causes.size() == causes_max);
  CHECK(state.causes[0].tail == std::string(tail_bytes_max, '"'));
  CHECK(state.stall->ranks.size() == stalled_ranks_max);

  desired last = full_desired();
  last.text = garbage;
  last.root_cause = bad;
  CHECK(encode(daemon_message(last)).size() <= line_bytes_max);
}

// Longer than any options and any host can make it: names of 256 bytes, four causes, and a tail in
// which every possible byte has to be escaped.
TEST_CASE("a hello with all that an agent may have to say is far from its limit") {
  const std::string label(name_bytes_max, 'x');
  hello greeting = full_hello();
  greeting.version = greeting.token = greeting.run_id = greeting.node = greeting.host = label;
  greeting.address = greeting.own_address = label;
  cause bad = full_cause();
  bad.node = label;
  bad.text.assign(text_bytes_max, 'x');
  bad.tail.clear();
  greeting.state = full_status();
  greeting.state.causes.assign(causes_max, bad);
  greeting.state.stall->ranks.assign(stalled_ranks_max, {0, 1, stall_kind::waits, label});
  greeting.state.leader_data = {std::string(leader_data_bytes_max, 'x'), label};
  greeting.state.assignment->leader_data = greeting.state.leader_data;
  CHECK(encode(agent_message(greeting)).size() <= hello_bytes_max / 2);
  greeting.state.leader_data = {};
  greeting.state.assignment->leader_data = {};
  greeting.state.causes.front().tail.assign(tail_bytes_max, '"');
  CHECK(encode(agent_message(greeting)).size() <= hello_bytes_max / 2);
  greeting.state.causes.front().tail.assign(tail_bytes_max, '\x01');
  const std::string line = encode(agent_message(greeting));
  const auto back = decode_agent_message(without_newline(line));
  REQUIRE(back.has_value());
  CHECK(std::get<hello>(*back).state.causes.front().tail == std::string(tail_bytes_max, ' '));
}

TEST_CASE("nothing that a peer says can pass for words of ours") {
  const std::string start =
      R"({"type":"hello","protocol":4,"run_id":"r","session":"00000000000000000000000000000001",)";
  CHECK(problem_of_agent(start + R"("node":"a\nddprun b: forged"})") ==
        "hello.node: holds a control character [malformed message]");
  CHECK(problem_of_agent(start + R"("host":"\u001b[2J"})") ==
        "hello.host: holds a control character [malformed message]");
  const auto back = decode_agent_message(
      R"({"type":"status","causes":[{"text":"one\n\u001b[1mtwo","tail":"a\n\u001b[2Jb\r"}]})");
  REQUIRE(back.has_value());
  const cause& why = std::get<status>(*back).causes[0];
  CHECK(why.text == "one two");
  CHECK(why.tail == "a\nb ");
}

TEST_CASE("what a leader gives its members is bounded, and passed on as it is or not at all") {
  const auto problem = [](const std::string& bytes) {
    return problem_of_agent(R"({"type":"status","leader_data":")" + bytes + "\"}");
  };
  const std::string most(leader_data_bytes_max, '~');
  const auto read = decode_agent_message(R"({"type":"status","leader_data":")" + most + "\"}");
  REQUIRE(read.has_value());
  CHECK(std::get<status>(*read).leader_data.bytes == most);
  CHECK(problem(std::string(leader_data_bytes_max + 1, 'x')) ==
        "status.leader_data: 4097 bytes, the limit is 4096 [message longer than the limit]");
  for (const char* const wrong : {R"(a\u0007)", R"(a\"b)", R"(a\\b)", R"(\n)", "\xC3\xA4"}) {
    INFO(wrong);
    CHECK(problem(wrong) ==
          "status.leader_data: holds a character that is no printable ASCII, a quotation mark or a "
          "backslash [malformed message]");
  }
  CHECK(problem_of_agent(R"({"type":"status","leader_data":["a"]})") ==
        "status.leader_data: is not a string [malformed message]");
  status leading;
  leading.leader_data.bytes = std::string(leader_data_bytes_max + 1, 'x');
  CHECK(encode(agent_message(leading)).find("leader_data") == std::string::npos);
}

TEST_CASE("what a node says of ranks that stand still is bounded, and makes sense") {
  const auto problem = [](const std::string& ranks) {
    return problem_of_agent(R"({"type":"status","stall":{"ranks":[)" + ranks + "]}}");
  };
  CHECK(problem(R"({"first":3,"last":2})") ==
        "status.stall.ranks[0].last: is below first [malformed message]");
  CHECK(problem(R"({"kind":"sleeps"})")
            .starts_with("status.stall.ranks[0].kind: \"sleeps\" is no kind of place that this "
                         "version knows"));
  CHECK(problem(R"({"words":"a\u001b[2J"})") ==
        "status.stall.ranks[0].words: holds a control character [malformed message]");
  CHECK(problem("{},{},{},{},{},{},{},{},{}") ==
        "status.stall.ranks: 9 items, the limit is 8 [message longer than the limit]");
}

TEST_CASE("the newest bytes of a tail survive, as valid text") {
  status report;
  report.causes.resize(1);
  report.causes[0].tail = std::string(5000, 'x') + "\xFFlast";
  const auto back = decode_agent_message(without_newline(encode(agent_message(report))));
  REQUIRE(back.has_value());
  const std::string& tail = std::get<status>(*back).causes[0].tail;
  CHECK(tail.size() == tail_bytes_max);
  CHECK(tail.ends_with("x\xEF\xBF\xBDlast"));
}

TEST_CASE("an ordinary assignment and status are about a kilobyte together") {
  desired run;
  run.instance = 0xfedcba9876543210;
  run.round = 3;
  run.seq = 9;
  run.phase = desired_phase::run;
  run.assignment = full_assignment();
  run.assignment->leader_data = {};
  status running = full_status();
  running.causes.clear();
  running.leader_data = {};
  running.tether_ages.clear();
  running.assignment->leader_data = {};
  CHECK(encode(daemon_message(run)).size() + encode(agent_message(running)).size() < 1100);
}
