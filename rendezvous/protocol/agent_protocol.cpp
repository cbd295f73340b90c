// The decoding half of agent_protocol.hpp: the only file of protocol/ that includes the JSON
// parser.
#include "rendezvous/protocol/agent_protocol.hpp"

#include "rendezvous/protocol/json_fields.hpp"

#include <type_traits>
#include <variant>

namespace ddprun::protocol {
namespace {

// Reads the object into the alternative whose name on the wire is its `type`.
template <typename... Values>
void read_any(const json& object, std::variant<Values...>& message, verdict& found) {
  std::string type;
  fields top(object, "message", found);
  top.label("type", type, presence::required);
  if (!top.good()) return;
  const auto read_as = [&]<typename Value>(std::type_identity<Value>) {
    if (type != type_name<Value>) return false;
    fields inner(object, type, found);
    fields_of(inner, message.template emplace<Value>());
    return true;
  };
  if ((read_as(std::type_identity<Values>()) || ...)) return;
  found.error = errc::unknown_message;
  found.problem = "message.type: \"" + type + "\" is not expected on this connection";
}

template <typename Message>
result<Message> decode(std::string_view line, std::string* problem) {
  verdict found;
  Message message;
  if (line.size() >= line_bytes_max) {
    found.error = errc::message_too_long;
    found.problem = "line: " + std::to_string(line.size()) + " bytes, the limit is " +
                    std::to_string(line_bytes_max - 1);
  } else {
    try {
      read_any(json::parse(line), message, found);
    } catch (const json::parse_error& error) {
      found.error = errc::malformed_message;
      found.problem = "line: is not JSON from byte " + std::to_string(error.byte) + " on";
    } catch (const json::out_of_range&) {
      found.error = errc::malformed_message;
      found.problem = "line: holds a number that is out of range";
    }
  }
  if (!found.error) return message;
  if (problem != nullptr) *problem = std::move(found.problem);
  return found.error;
}

}  // namespace

result<agent_message> decode_agent_message(std::string_view line, std::string* problem) {
  return decode<agent_message>(line, problem);
}

result<daemon_message> decode_daemon_message(std::string_view line, std::string* problem) {
  return decode<daemon_message>(line, problem);
}

result<tether_reply> decode_tether_reply(std::string_view line, std::string* problem) {
  return decode<tether_reply>(line, problem);
}

}  // namespace ddprun::protocol
