#include "tests/simulation/transport.hpp"

#include "rendezvous/protocol/agent.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace ddprun::simulation {
namespace {

template <typename... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};

std::string text_of(const agent_message& message) {
  return std::visit(
      overloaded{
          [](const hello& m) {
            return "hello " + m.node + " session " + to_string(m.session).substr(0, 4) +
                   " instance " + std::to_string(m.state.instance % 1000) + " round " +
                   std::to_string(m.state.round) + " " + std::string(to_string(m.state.phase));
          },
          [](const status& m) {
            std::string text =
                "status " + std::to_string(m.seq) + " instance " +
                std::to_string(m.instance % 1000) + " round " + std::to_string(m.round) +
                " obeyed " + std::to_string(m.desired_seq) + " " + std::string(to_string(m.phase));
            if (m.draining) text += " draining";
            if (m.signal != 0) text += " signal " + std::to_string(m.signal);
            if (m.unkillable != 0) text += " unkillable " + std::to_string(m.unkillable);
            for (const auto& c : m.causes)
              text += " [" + std::string(to_string(c.kind)) + " " + std::to_string(c.code) + "]";
            return text;
          },
          [](const goodbye&) { return std::string("goodbye"); },
          [](const guardian_word& m) { return "guardian " + to_string(m.session).substr(0, 4); },
          [](const tether_hello& m) {
            return "tether_hello round " + std::to_string(m.round) + " slot " +
                   std::to_string(m.slot);
          },
          [](const tether_beat& m) { return "tether_beat " + std::to_string(m.seq); },
      },
      message);
}

std::string text_of(const daemon_message& message) {
  return std::visit(overloaded{
                        [](const welcome&) { return std::string("welcome"); },
                        [](const answer& m) { return "answer " + std::to_string(m.seq); },
                        [](const desired& m) {
                          std::string text =
                              "desired instance " + std::to_string(m.instance % 1000) + " round " +
                              std::to_string(m.round) + " seq " + std::to_string(m.seq) + " " +
                              std::string(to_string(m.phase)) + " used " +
                              std::to_string(m.restarts_used);
                          if (m.place) {
                            text += " slot " + std::to_string(m.place->slot) + "/" +
                                    std::to_string(m.place->group_world_size) + " first " +
                                    std::to_string(m.place->rank_first) + "/" +
                                    std::to_string(m.place->world_size);
                          }
                          if (m.phase == desired_phase::close)
                            text += " code " + std::to_string(m.exit_code);
                          return text + " \"" + m.text + "\"";
                        },
                        [](const refused& m) {
                          return "refused " + std::to_string(m.exit_code) + " \"" + m.text + "\"";
                        },
                        [](const not_primary& m) { return "not_primary \"" + m.text + "\""; },
                    },
                    message);
}

std::string text_of(const tether_reply& message) {
  return std::visit(
      overloaded{
          [](const tether_answer& m) { return "tether_answer " + std::to_string(m.seq); },
          [](const refused& m) { return "tether refused \"" + m.text + "\""; },
      },
      message);
}

// The bytes of a message that goes to many are made once, as the daemon does.
struct broadcast {
  std::shared_ptr<const daemon_message> sent;
  parcel packed;
};

}  // namespace

parcel transport(payload message, std::string& problem) {
  thread_local broadcast last;
  parcel packed;
  const auto decode = [&](std::string line, auto decoder) {
    packed.bytes = line.size();
    line.pop_back();
    auto decoded = decoder(std::string_view(line), &problem);
    if (!decoded) problem += ": " + line;
    return decoded;
  };
  if (const auto* agent = std::get_if<agent_message>(&message)) {
    auto decoded = decode(protocol::encode(*agent), protocol::decode_agent_message);
    if (decoded) packed.content = std::make_shared<const payload>(std::move(*decoded));
    return packed;
  }
  if (const auto* reply = std::get_if<tether_reply>(&message)) {
    auto decoded = decode(protocol::encode(*reply), protocol::decode_tether_reply);
    if (decoded) packed.content = std::make_shared<const payload>(std::move(*decoded));
    return packed;
  }
  const auto& sent = std::get<std::shared_ptr<const daemon_message>>(message);
  if (last.sent == sent) return last.packed;
  auto decoded = decode(protocol::encode(*sent), protocol::decode_daemon_message);
  if (!decoded) return packed;
  packed.content =
      std::make_shared<const payload>(std::make_shared<const daemon_message>(std::move(*decoded)));
  last = {sent, packed};
  return packed;
}

int replaceable_kind(const payload& message) {
  if (const auto* agent = std::get_if<agent_message>(&message)) {
    if (std::holds_alternative<status>(*agent)) return 1;
    if (std::holds_alternative<tether_beat>(*agent)) return 2;
    return 0;
  }
  if (const auto* reply = std::get_if<tether_reply>(&message))
    return std::holds_alternative<tether_answer>(*reply) ? 3 : 0;
  const daemon_message& daemon = *std::get<std::shared_ptr<const daemon_message>>(message);
  if (std::holds_alternative<desired>(daemon)) return 4;
  return std::holds_alternative<answer>(daemon) ? 5 : 0;
}

std::string to_text(const payload& message) {
  if (const auto* agent = std::get_if<agent_message>(&message)) return text_of(*agent);
  if (const auto* reply = std::get_if<tether_reply>(&message)) return text_of(*reply);
  return text_of(*std::get<std::shared_ptr<const daemon_message>>(message));
}

}  // namespace ddprun::simulation
