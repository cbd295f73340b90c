// Whatever a peer sends, in whichever field: either it is refused in a line that can be shown, or
// what was read can be shown. A new field is tested as soon as it is in full_messages.hpp.
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/protocol/agent_fields.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/full_messages.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::protocol;
using namespace ddprun::tests;
using nlohmann::json;

namespace {

// Written here a second time, because our own function is what this tests.
bool can_be_shown(std::string_view text, bool has_lines) {
  if (to_valid_utf8(text) != text) return false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool is_of_lines = has_lines && (byte == '\n' || byte == '\t');
    if ((byte < 0x20 && !is_of_lines) || byte == 0x7F) return false;
    const std::string_view two = text.substr(at, 2);
    if (two >= "\xC2\x80" && two <= "\xC2\x9F") return false;
    const std::string_view three = text.substr(at, 3);
    if (three >= "\xE2\x80\xA8" && three <= "\xE2\x80\xAE") return false;
    if (three >= "\xE2\x81\xA6" && three <= "\xE2\x81\xA9") return false;
  }
  return true;
}

struct found_text {
  std::string name;
  std::string value;
  bool has_lines = false;
};

// Collects every text of a message as it was read; agent_fields.hpp says what the verbs mean.
class text_finder {
 public:
  explicit text_finder(std::vector<found_text>& found) : found_(found) {}

  void number(auto&&...) {}
  void count(auto&&...) {}
  void count_or(auto&&...) {}
  void u32(auto&&...) {}
  void port(auto&&...) {}
  void timer(auto&&...) {}
  void age(auto&&...) {}
  void flag(auto&&...) {}
  void hexadecimal(auto&&...) {}
  void session(auto&&...) {}
  void word(auto&&...) {}
  void check(auto&&...) {}
  void check_version(auto&&...) {}

  void label(std::string_view name, const std::string& value, presence = presence::if_any) {
    add(name, value);
  }
  void label_or(std::string_view name, const std::string& value, std::string_view) {
    add(name, value);
  }
  void sentence(std::string_view name, const std::string& value, presence = presence::if_any) {
    add(name, value);
  }
  void tail(std::string_view name, const std::string& value, std::size_t) {
    add(name, value, true);
  }
  void opaque(std::string_view name, const std::string& value, std::size_t) { add(name, value); }
  void labels(std::string_view name, const std::vector<std::string>& values, std::size_t) {
    for (const std::string& value : values)
      add(name, value);
  }
  void ends(std::string_view name, const std::vector<ended_ranks>& values) {
    for (const ended_ranks& value : values)
      add(name, detail_text(value));
  }
  template <typename Value>
  void object(std::string_view, const Value& value) {
    fields_of(*this, value);
  }
  template <typename Value>
  void object(std::string_view, const std::optional<Value>& value) {
    if (value) fields_of(*this, *value);
  }
  template <typename Value>
  void list(std::string_view, const std::vector<Value>& values, std::size_t) {
    for (const Value& value : values)
      fields_of(*this, value);
  }

 private:
  void add(std::string_view name, const std::string& value, bool has_lines = false) {
    found_.push_back({std::string(name), value, has_lines});
  }

  std::vector<found_text>& found_;
};

template <typename Message>
std::vector<found_text> texts_of(const Message& message) {
  std::vector<found_text> found;
  text_finder finder(found);
  std::visit([&finder](const auto& one) { fields_of(finder, one); }, message);
  return found;
}

struct bad_text {
  const char* what;
  const char* bytes;  // as they may stand between the quotes of a JSON string
};
const bad_text bad_texts[] = {{"a line feed", "\\nddprun b: forged"},
                              {"a carriage return", "\\rddprun b: forged"},
                              {"an escape sequence", "\\u001b[2J"},
                              {"a bell", "\\u0007"},
                              {"zero", "\\u0000"},
                              {"DEL", "\x7F"},
                              {"DEL, escaped", "\\u007f"},
                              {"a control character of C1",
                               "\xC2\x9B"
                               "2J"},
                              {"the same, escaped", "\\u009b2J"},
                              {"a right-to-left override",
                               "\xE2\x80\xAE"
                               "degrof"},
                              {"the same, escaped", "\\u202edegrof"},
                              {"an isolate", "\\u2066x"},
                              {"a line separator", "\\u2028x"},
                              {"invalid UTF-8", "\xFF\xC3"},
                              {"half of a surrogate", "\\ud800"}};

constexpr const char* place = "@here@";

// Calls `act` once for each string of the message, with the line in which the bytes follow that
// string.
void for_each_line(
    const json& whole, const bad_text& bad,
    const std::function<void(const std::string& line, const std::string& where)>& act) {
  const json flat = whole.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (!value.is_string()) continue;
    json changed = whole;
    changed[json::json_pointer(path)] = value.get<std::string>() + place;
    std::string line = changed.dump();
    line.replace(line.find(place), std::string_view(place).size(), bad.bytes);
    act(line, path);
  }
}

template <typename Message>
void try_all(const Message& message, const auto& decode) {
  for (const found_text& text : texts_of(message)) {
    INFO(text.name);
    // Otherwise nothing would be tried there: ranks that succeeded have no detail, and may have
    // none.
    CHECK((!text.value.empty() || text.name == "ends"));
  }
  const json whole = json::parse(encode(message));
  for (const bad_text& bad : bad_texts) {
    for_each_line(whole, bad, [&](const std::string& line, const std::string& where) {
      INFO(where << " with " << bad.what);
      std::string problem;
      const auto read = decode(line, &problem);
      if (read.has_error()) {
        CHECK_FALSE(problem.empty());
        CHECK(can_be_shown(problem, false));
        return;
      }
      for (const found_text& text : texts_of(*read)) {
        INFO(text.name << ": " << text.value);
        CHECK(can_be_shown(text.value, text.has_lines));
      }
    });
  }
}

}  // namespace

TEST_CASE("an agent's message has no text that cannot be shown, in any field") {
  const agent_message messages[] = {full_hello(),
                                    full_status(),
                                    goodbye{someone},
                                    guardian_word{"digits", someone, 5, 7, 1, "node-a", 2, 2},
                                    tether_hello{7, 3, someone, 2, 5},
                                    tether_beat{12, true}};
  STATIC_REQUIRE(std::size(messages) == std::variant_size_v<agent_message>);
  for (const agent_message& message : messages) {
    INFO(message.index());
    try_all(message, decode_agent_message);
  }
}

TEST_CASE("a daemon's message has no text that cannot be shown, in any field") {
  const daemon_message messages[] = {welcome{2, "0.1.0", timers_for(3s)},
                                     ack{7},
                                     full_desired(),
                                     refused{refused_exit_code, "why"},
                                     not_primary{"another"},
                                     full_report()};
  STATIC_REQUIRE(std::size(messages) == std::variant_size_v<daemon_message>);
  for (const daemon_message& message : messages) {
    INFO(message.index());
    try_all(message, decode_daemon_message);
  }
}

TEST_CASE("a leader's message to its members has no text that cannot be shown, in any field") {
  for (const tether_reply& message :
       {tether_reply{tether_ack{3}}, tether_reply{refused{refused_exit_code, "why"}}}) {
    try_all(message, decode_tether_reply);
  }
}
