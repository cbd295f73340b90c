// The decoding half of agent.hpp, and the only file of protocol/ that pays for the JSON library.
#include "rendezvous/protocol/agent.hpp"

#include "rendezvous/core/messages/settings_table.hpp"
#include "rendezvous/protocol/json_fields.hpp"

#include <limits>

namespace ddprun::protocol {
namespace {

// Reads the object in `name`, if it is there, with the `read` of its type below.
template <typename Value>
void read_object(fields& from, std::string_view name, Value& value);
template <typename Value>
void read_object(fields& from, std::string_view name, std::optional<Value>& value) {
  if (from.find(name) != nullptr) read_object(from, name, value.emplace());
}

void read(fields& from, cause& value) {
  from.count("round", value.round);
  from.u32("slot", value.slot);
  from.label("node", value.node);
  from.word("kind", value.kind, cause_class::operator_stop, "kind of cause");
  from.u32("rank", value.rank);
  from.u32("local_rank", value.local_rank);
  from.number("process", value.process, 0, count_max);
  from.number("code", value.code, -65536, 65536);
  from.flag("by_our_stop", value.by_our_stop);
  from.time("age_us", value.age, age_max);
  from.text("text", value.text, text_bytes_max);
  from.text("tail", value.tail, tail_bytes_max);
}

void read(fields& from, role_ranks& value) {
  from.u32("rank_first", value.rank_first);
  from.number("world_size", value.world_size, 1, std::numeric_limits<std::uint32_t>::max());
}

void read(fields& from, assignment& value) {
  from.u32("slot", value.slot);
  from.number("group_world_size", value.group_world_size, 1, nodes_per_run_max);
  from.u32("rank_first", value.rank_first);
  from.number("world_size", value.world_size, 1, std::numeric_limits<std::uint32_t>::max());
  read_object(from, "in_role", value.in_role);
  from.label("master_address", value.master_address);
  from.port("master_port", value.master_port);
  from.port("tether_port", value.tether_port);
  from.label("leader_node", value.leader_node);
  from.texts("nccl_ids", value.nccl_ids, nccl_ids_max);
  if (from.good() && value.slot >= value.group_world_size) {
    from.fail(errc::malformed_message, "slot", "is not below group_world_size");
  }
  if (from.good() && value.rank_first >= value.world_size) {
    from.fail(errc::malformed_message, "rank_first", "is not below world_size");
  }
}

void read(fields& from, timers& value) {
  value = read_timers([&](const timer_row& row, duration& one) {
    from.timer(std::string(row.name) + "_us", one, row.min);
  });
  if (!from.good()) return;
  if (const std::string problem = problem_of(value); !problem.empty()) {
    from.fail(errc::malformed_message, "", problem);
  }
}

struct setting_reader {
  fields& from;
  run_settings& value;

  void operator()(const range_row& row) const {
    from.number(row.min_name, value.*row.min_field, 1, row.max);
    from.number(row.max_name, value.*row.max_field, 1, row.max);
    if (from.good() && value.*row.min_field > value.*row.max_field) {
      from.fail(errc::malformed_message, row.min_name, "is over " + std::string(row.max_name));
    }
  }
  void operator()(const count_row& row) const {
    from.number(row.wire_name, value.*row.field, 0, row.max);
  }
  template <typename Word>
  void operator()(const word_row<Word>& row) const {
    from.word(row.wire_name, value.*row.field, row.last, row.what);
  }
};

void read(fields& from, run_settings& value) {
  for_each_setting(setting_reader{from, value});
  read_object(from, "timing", value.timing);
}

void read(fields& from, status& value) {
  from.count("seq", value.seq);
  from.hexadecimal("instance", value.instance);
  from.count("round", value.round);
  value.round_told = value.round;
  from.count("round_told", value.round_told);
  from.count("desired_seq", value.desired_seq);
  from.word("phase", value.phase, member_phase::lost, "phase");
  read_object(from, "place", value.place);
  from.port("service_port", value.service_port);
  from.port("master_port", value.master_port);
  from.texts("nccl_ids", value.nccl_ids, nccl_ids_max);
  from.u32("restarts_used", value.restarts_used);
  from.u32("unkillable", value.unkillable);
  from.flag("succeeded", value.succeeded);
  from.flag("draining", value.draining);
  from.number("signal", value.signal, 0, 64);
  const json* causes = from.list_of("causes", causes_max);
  if (causes == nullptr) return;
  for (const json& item : *causes) {
    const std::string index = std::to_string(value.causes.size());
    fields inner(item, from.path("causes[" + index + "]"), from.found());
    read(inner, value.causes.emplace_back());
  }
}

void read(fields& from, hello& value) {
  from.require("protocol");
  from.number("protocol", value.protocol, 0, std::numeric_limits<std::uint32_t>::max());
  from.label("version", value.version);
  if (from.good() && value.protocol != agent_protocol_version) {
    from.fail(errc::version_mismatch, "protocol",
              "version " + std::to_string(value.protocol) + " of ddprun " + value.version +
                  ", this side speaks " + std::to_string(agent_protocol_version) +
                  "; use the same version of ddprun on every node");
  }
  from.label("token", value.token);
  from.require("run_id");
  from.label("run_id", value.run_id);
  if (from.good() && value.run_id.empty()) from.fail(errc::malformed_message, "run_id", "is empty");
  from.session("session", value.session);
  from.label("node", value.node);
  from.flag("node_is_explicit", value.node_is_explicit);
  from.label("host", value.host);
  from.number("worker_count", value.worker_count, 1, workers_per_node_max);
  from.u32("node_rank", value.node_rank);
  from.label("role", value.role);
  from.label("address", value.address);
  from.label("own_address", value.own_address);
  from.flag("hosts_daemon", value.hosts_daemon);
  read_object(from, "settings", value.settings);
  read_object(from, "state", value.state);
}

void read(fields& from, goodbye& value) {
  from.session("session", value.session);
}

void read(fields& from, guardian_word& value) {
  from.require("run_id");
  from.label("run_id", value.run_id);
  from.session("session", value.session);
}

void read(fields& from, tether_hello& value) {
  from.require("instance");
  from.hexadecimal("instance", value.instance);
  from.require("round");
  from.count("round", value.round);
  from.session("session", value.session);
  from.u32("slot", value.slot);
}

void read(fields& from, tether_beat& value) {
  from.count("seq", value.seq);
  from.flag("succeeded", value.succeeded);
}
void read(fields& from, tether_answer& value) {
  from.count("seq", value.seq);
}
void read(fields& from, answer& value) {
  from.count("seq", value.seq);
}

void read(fields& from, welcome& value) {
  from.count("epoch", value.epoch);
  from.label("version", value.version);
  read_object(from, "timing", value.timing);
}

void read(fields& from, desired& value) {
  from.count("epoch", value.epoch);
  from.hexadecimal("instance", value.instance);
  from.count("round", value.round);
  from.count("seq", value.seq);
  from.require("phase");
  from.word("phase", value.phase, desired_phase::close, "phase");
  from.u32("restarts_used", value.restarts_used);
  from.u32("world_size", value.world_size);
  from.u32("group_world_size", value.group_world_size);
  from.label("master_address", value.master_address);
  read_object(from, "place", value.place);
  from.timer("grace_us", value.grace);
  from.number("exit_code", value.exit_code, 0, 255);
  read_object(from, "first_cause", value.first_cause);
  from.text("text", value.text, text_bytes_max);
}

void read(fields& from, refused& value) {
  from.number("exit_code", value.exit_code, 0, 255);
  from.text("text", value.text, text_bytes_max);
}

template <typename Value>
void read_object(fields& from, std::string_view name, Value& value) {
  const json* object = from.find(name);
  if (object == nullptr) return;
  fields inner(*object, from.path(name), from.found());
  read(inner, value);
}

// Reads the line into the alternative whose name on the wire is its `type`.
template <typename Message>
class kinds {
 public:
  explicit kinds(const json& object, verdict& found) : object_(object), found_(found) {
    fields top(object_, "message", found_);
    top.require("type");
    top.label("type", type_);
  }

  template <typename Value>
  kinds& accept(std::string_view name) {
    if (found_.error || matched_ || name != type_) return *this;
    matched_ = true;
    fields top(object_, type_, found_);
    read(top, message_.template emplace<Value>());
    return *this;
  }

  Message take() {
    if (!found_.error && !matched_) {
      found_.error = errc::unknown_message;
      found_.problem = "message.type: \"" + type_ + "\" is no message that belongs here";
    }
    return std::move(message_);
  }

 private:
  const json& object_;
  verdict& found_;
  std::string type_;
  bool matched_ = false;
  Message message_;
};

template <typename Message, typename... Values>
result<Message> decode(std::string_view line, std::string* problem,
                       std::initializer_list<std::string_view> names) {
  verdict found;
  Message message;
  if (line.size() >= line_bytes_max) {
    found.error = errc::message_too_long;
    found.problem = "line: " + std::to_string(line.size()) + " bytes, the limit is " +
                    std::to_string(line_bytes_max - 1);
  } else {
    try {
      const json object = json::parse(line);
      kinds<Message> reader(object, found);
      auto name = names.begin();
      (reader.template accept<Values>(*name++), ...);
      message = reader.take();
    } catch (const json::parse_error& error) {
      found.error = errc::malformed_message;
      found.problem = "line: is no JSON from byte " + std::to_string(error.byte) + " on";
    } catch (const json::out_of_range&) {
      found.error = errc::malformed_message;
      found.problem = "line: holds a number that no computer can hold";
    }
  }
  if (!found.error) return message;
  if (problem != nullptr) *problem = std::move(found.problem);
  return found.error;
}

}  // namespace

result<agent_message> decode_agent_message(std::string_view line, std::string* problem) {
  return decode<agent_message, hello, status, goodbye, guardian_word, tether_hello, tether_beat>(
      line, problem,
      {"hello", "status", "goodbye", "guardian_word", "tether_hello", "tether_beat"});
}

result<daemon_message> decode_daemon_message(std::string_view line, std::string* problem) {
  return decode<daemon_message, welcome, answer, desired, refused>(
      line, problem, {"welcome", "answer", "desired", "refused"});
}

result<tether_reply> decode_tether_reply(std::string_view line, std::string* problem) {
  return decode<tether_reply, tether_answer, refused>(line, problem, {"tether_answer", "refused"});
}

}  // namespace ddprun::protocol
