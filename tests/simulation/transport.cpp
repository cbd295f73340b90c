#include "tests/simulation/transport.hpp"

#include "rendezvous/protocol/agent_protocol.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::simulation {
namespace {

template <typename... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
overloaded(Ts...) -> overloaded<Ts...>;  // clang 14 finds it only where it stands

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
            return "tether_hello round " + std::to_string(m.round) + " group rank " +
                   std::to_string(m.group_rank);
          },
          [](const tether_beat& m) { return "tether_beat " + std::to_string(m.seq); },
      },
      message);
}

std::string text_of(const daemon_message& message) {
  return std::visit(overloaded{
                        [](const welcome&) { return std::string("welcome"); },
                        [](const ack& m) { return "answer " + std::to_string(m.seq); },
                        [](const desired& m) {
                          std::string text =
                              "desired instance " + std::to_string(m.instance % 1000) + " round " +
                              std::to_string(m.round) + " seq " + std::to_string(m.seq) + " " +
                              std::string(to_string(m.phase)) + " used " +
                              std::to_string(m.restarts_used);
                          if (m.assignment) {
                            text += " group rank " + std::to_string(m.assignment->group_rank) +
                                    "/" + std::to_string(m.assignment->group_world_size) +
                                    " first " + std::to_string(m.assignment->rank_first) + "/" +
                                    std::to_string(m.assignment->world_size);
                          }
                          if (m.phase == desired_phase::close)
                            text += " code " + std::to_string(m.exit_code);
                          return text + " \"" + m.text + "\"";
                        },
                        [](const refused& m) {
                          return "refused " + std::to_string(m.exit_code) + " \"" + m.text + "\"";
                        },
                        [](const round_report& m) {
                          return "report round " + std::to_string(m.round) + " \"" + m.text + "\"";
                        },
                        [](const not_primary& m) { return "not_primary \"" + m.text + "\""; },
                    },
                    message);
}

std::string text_of(const tether_reply& message) {
  return std::visit(overloaded{
                        [](const tether_ack& m) { return "tether_ack " + std::to_string(m.seq); },
                        [](const refused& m) { return "tether refused \"" + m.text + "\""; },
                    },
                    message);
}

// How many digits `seq` has on the wire, where 0 may be left out.
std::size_t digits_of(std::uint64_t seq) {
  std::size_t digits = 0;
  for (; seq != 0; seq /= 10)
    ++digits;
  return digits;
}

// A message that was transported, and what arrived at the other end. Three of four messages are an
// ack, or a state that an agent has sent before. The line of such a message would have the same
// bytes except for the digits of its `seq`, and as many, so it need not be encoded and decoded
// again.
template <typename Message>
struct passage {
  Message sent;
  Message read;
  std::size_t bytes = 0;  // 0: nothing went through yet

  bool is_of(const Message& message) {
    if (bytes == 0) return false;
    if constexpr (requires { message.seq; }) {
      if (digits_of(sent.seq) != digits_of(message.seq)) return false;
      sent.seq = read.seq = message.seq;
    }
    return sent == message;
  }
};

// The newest one of that type; null: such messages are rarely the same.
template <typename Message>
passage<Message>* passage_like(const Message&) {
  return nullptr;
}
passage<status>* passage_like(const status& message) {
  thread_local std::array<passage<status>, 256> newest;
  std::uint64_t mixed = message.instance;
  for (const std::uint64_t each :
       {message.round, message.desired_seq, std::uint64_t{message.service_port},
        static_cast<std::uint64_t>(message.phase), std::uint64_t{digits_of(message.seq)}})
    mixed = (mixed ^ each) * 0x9e3779b97f4a7c15ULL;
  return &newest[mixed >> 56];
}
template <typename Message>
requires std::same_as<Message, ack> || std::same_as<Message, tether_beat> ||
    std::same_as<Message, tether_ack>
        passage<Message>
*passage_like(const Message& message) {
  thread_local std::array<passage<Message>, 32> newest;
  return &newest[digits_of(message.seq)];
}
passage<welcome>* passage_like(const welcome&) {
  thread_local passage<welcome> newest;
  return &newest;
}

// `message` as it arrives at the other end; none, with `problem`, if it would end the session.
template <typename Message, typename Decoder>
std::optional<Message> carry(const Message& message, Decoder decoder, std::size_t& bytes,
                             std::string& problem) {
  const auto carry_one = [&]<typename One>(const One& one) -> std::optional<Message> {
    passage<One>* const before = passage_like(one);
    if (before != nullptr && before->is_of(one)) {
      bytes = before->bytes;
      return before->read;
    }
    std::string line = protocol::encode(message);
    bytes = line.size();
    line.pop_back();
    auto decoded = decoder(std::string_view(line), &problem);
    if (!decoded) {
      problem += ": " + line;
      return std::nullopt;
    }
    if (before != nullptr) *before = {one, std::get<One>(*decoded), bytes};
    return std::move(*decoded);
  };
  return std::visit(carry_one, message);
}

// A message that goes to many agents is encoded once, as in the daemon.
struct broadcast {
  std::shared_ptr<const daemon_message> sent;
  parcel packed;
};

}  // namespace

parcel transport(payload message, std::string& problem) {
  thread_local broadcast last;
  parcel packed;
  if (const auto* agent = std::get_if<agent_message>(&message)) {
    auto read = carry(*agent, protocol::decode_agent_message, packed.bytes, problem);
    if (read) packed.content = std::make_shared<const payload>(std::move(*read));
    return packed;
  }
  if (const auto* reply = std::get_if<tether_reply>(&message)) {
    auto read = carry(*reply, protocol::decode_tether_reply, packed.bytes, problem);
    if (read) packed.content = std::make_shared<const payload>(std::move(*read));
    return packed;
  }
  const auto& sent = std::get<std::shared_ptr<const daemon_message>>(message);
  if (last.sent == sent) return last.packed;
  auto read = carry(*sent, protocol::decode_daemon_message, packed.bytes, problem);
  if (!read) return packed;
  packed.content =
      std::make_shared<const payload>(std::make_shared<const daemon_message>(std::move(*read)));
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
    return std::holds_alternative<tether_ack>(*reply) ? 3 : 0;
  const daemon_message& daemon = *std::get<std::shared_ptr<const daemon_message>>(message);
  if (std::holds_alternative<desired>(daemon)) return 4;
  return std::holds_alternative<ack>(daemon) ? 5 : 0;
}

std::string to_text(const payload& message) {
  if (const auto* agent = std::get_if<agent_message>(&message)) return text_of(*agent);
  if (const auto* reply = std::get_if<tether_reply>(&message)) return text_of(*reply);
  return text_of(*std::get<std::shared_ptr<const daemon_message>>(message));
}

}  // namespace ddprun::simulation
