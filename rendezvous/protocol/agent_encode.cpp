// The encoding half of agent.hpp; agent.cpp decodes.
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/messages/settings_table.hpp"
#include "rendezvous/protocol/agent.hpp"
#include "rendezvous/protocol/json_writer.hpp"

#include <algorithm>
#include <array>

namespace ddprun::protocol {

void append_json_string(std::string& line, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  line += '"';
  for (const char byte : text) {
    switch (byte) {
      case '"':
        line += "\\\"";
        break;
      case '\\':
        line += "\\\\";
        break;
      case '\n':
        line += "\\n";
        break;
      case '\t':
        line += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(byte) < 0x20) {
          line += "\\u00";
          line += digits[static_cast<unsigned char>(byte) >> 4];
          line += digits[static_cast<unsigned char>(byte) & 15];
        } else {
          line += byte;
        }
    }
  }
  line += '"';
}

namespace {

// Which tails a line has room for; each step is tried only when the one before was too long.
enum class tails { all, first_only, none };

// Names and sentences: no control characters, so that escaping at most doubles them.
std::string plain(std::string_view value, std::size_t bytes_max) {
  std::string text = to_valid_utf8(value);
  for (char& byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if ((code < 0x20 && byte != '\n' && byte != '\t') || code == 0x7F) byte = '?';
  }
  return std::string(first_of(text, bytes_max));
}

std::string name_of(std::string_view value) {
  return plain(value, name_bytes_max);
}
std::string sentence_of(std::string_view value) {
  return plain(value, text_bytes_max);
}

void write_texts(std::string& line, json_writer& object, std::string_view field,
                 const std::vector<std::string>& values) {
  if (values.empty()) return;
  object.name(field);
  line += '[';
  for (std::size_t index = 0; index < std::min(values.size(), nccl_ids_max); ++index) {
    if (index != 0) line += ',';
    append_json_string(line, name_of(values[index]));
  }
  line += ']';
}

void write(std::string& line, const cause& value, bool with_tail) {
  json_writer object(line);
  object.number("round", value.round);
  object.number("slot", value.slot);
  object.text_if_any("node", name_of(value.node));
  object.text("kind", to_string(value.kind));
  if (value.rank) object.number("rank", *value.rank);
  if (value.local_rank) object.number("local_rank", *value.local_rank);
  object.number_if_not("process", value.process, 0);
  object.number_if_not("code", value.code, 0);
  object.flag_if("by_our_stop", value.by_our_stop);
  object.number_if_not("age_us", to_micros(std::clamp(value.age, duration::zero(), age_max)), 0);
  object.text_if_any("text", sentence_of(value.text));
  if (!with_tail) return;
  const std::string tail = to_valid_utf8(value.tail);
  object.text_if_any("tail", last_of(tail, tail_bytes_max));
}

void write(std::string& line, const assignment& value) {
  json_writer object(line);
  object.number("slot", value.slot);
  object.number("group_world_size", value.group_world_size);
  object.number("rank_first", value.rank_first);
  object.number("world_size", value.world_size);
  if (value.in_role) {
    object.name("in_role");
    json_writer ranks(line);
    ranks.number("rank_first", value.in_role->rank_first);
    ranks.number("world_size", value.in_role->world_size);
  }
  object.text_if_any("master_address", name_of(value.master_address));
  object.number_if_not("master_port", value.master_port, 0);
  object.number_if_not("tether_port", value.tether_port, 0);
  object.text_if_any("leader_node", name_of(value.leader_node));
  write_texts(line, object, "nccl_ids", value.nccl_ids);
}

void write(std::string& line, const timers& value) {
  json_writer object(line);
  for (const timer_row& row : timer_table)
    object.number(std::string(row.name) + "_us", to_micros(value.*row.field));
}

struct setting_writer {
  json_writer& object;
  const run_settings& value;

  void operator()(const range_row& row) const {
    object.number(row.min_name, value.*row.min_field);
    object.number(row.max_name, value.*row.max_field);
  }
  void operator()(const count_row& row) const { object.number(row.wire_name, value.*row.field); }
  template <typename Word>
  void operator()(const word_row<Word>& row) const {
    object.text(row.wire_name, to_string(value.*row.field));
  }
};

void write(std::string& line, const run_settings& value) {
  json_writer object(line);
  for_each_setting(setting_writer{object, value});
  object.name("timing");
  write(line, value.timing);
}

void write_fields(std::string& line, json_writer& object, const status& value, tails room) {
  object.number_if_not("seq", value.seq, 0);
  if (value.instance != 0) object.text("instance", to_hex(value.instance));
  object.number_if_not("round", value.round, 0);
  object.number_if_not("round_told", value.round_told, value.round);
  object.number_if_not("desired_seq", value.desired_seq, 0);
  object.text("phase", to_string(value.phase));
  if (value.place) {
    object.name("place");
    write(line, *value.place);
  }
  object.number_if_not("service_port", value.service_port, 0);
  object.number_if_not("master_port", value.master_port, 0);
  write_texts(line, object, "nccl_ids", value.nccl_ids);
  object.number_if_not("restarts_used", value.restarts_used, 0);
  object.number_if_not("unkillable", value.unkillable, 0);
  object.flag_if("succeeded", value.succeeded);
  object.flag_if("draining", value.draining);
  object.number_if_not("signal", value.signal, 0);
  if (value.causes.empty()) return;
  object.name("causes");
  line += '[';
  for (std::size_t index = 0; index < std::min(value.causes.size(), causes_max); ++index) {
    if (index != 0) line += ',';
    write(line, value.causes[index],
          room == tails::all || (room == tails::first_only && index == 0));
  }
  line += ']';
}

struct line_of {
  std::string& line;
  tails room = tails::all;

  void operator()(const hello& value) const {
    json_writer object(line);
    object.text("type", "hello");
    object.number("protocol", value.protocol);
    object.text_if_any("version", name_of(value.version));
    object.text_if_any("token", name_of(value.token));
    object.text("run_id", name_of(value.run_id));
    object.text("session", to_string(value.session));
    object.text_if_any("node", name_of(value.node));
    object.flag_if("node_is_explicit", value.node_is_explicit);
    object.text_if_any("host", name_of(value.host));
    object.number("worker_count", value.worker_count);
    if (value.node_rank) object.number("node_rank", *value.node_rank);
    if (value.role != hello().role) object.text("role", name_of(value.role));
    object.text_if_any("address", name_of(value.address));
    object.text_if_any("own_address", name_of(value.own_address));
    object.flag_if("hosts_daemon", value.hosts_daemon);
    object.name("settings");
    write(line, value.settings);
    object.name("state");
    json_writer state(line);
    write_fields(line, state, value.state, room);
  }
  void operator()(const status& value) const {
    json_writer object(line);
    object.text("type", "status");
    write_fields(line, object, value, room);
  }
  void operator()(const goodbye& value) const {
    json_writer object(line);
    object.text("type", "goodbye");
    object.text("session", to_string(value.session));
  }
  void operator()(const guardian_word& value) const {
    json_writer object(line);
    object.text("type", "guardian_word");
    object.text("run_id", name_of(value.run_id));
    object.text("session", to_string(value.session));
  }
  void operator()(const tether_hello& value) const {
    json_writer object(line);
    object.text("type", "tether_hello");
    object.text("instance", to_hex(value.instance));
    object.number("round", value.round);
    object.text("session", to_string(value.session));
    object.number("slot", value.slot);
  }
  void operator()(const tether_beat& value) const {
    json_writer object(line);
    object.text("type", "tether_beat");
    object.number("seq", value.seq);
    object.flag_if("succeeded", value.succeeded);
  }
  void operator()(const welcome& value) const {
    json_writer object(line);
    object.text("type", "welcome");
    object.number_if_not("epoch", value.epoch, 0);
    object.text_if_any("version", name_of(value.version));
    object.name("timing");
    write(line, value.timing);
  }
  void operator()(const answer& value) const {
    json_writer object(line);
    object.text("type", "answer");
    object.number("seq", value.seq);
  }
  void operator()(const desired& value) const {
    json_writer object(line);
    object.text("type", "desired");
    object.number_if_not("epoch", value.epoch, 0);
    if (value.instance != 0) object.text("instance", to_hex(value.instance));
    object.number_if_not("round", value.round, 0);
    object.number_if_not("seq", value.seq, 0);
    object.text("phase", to_string(value.phase));
    object.number_if_not("restarts_used", value.restarts_used, 0);
    object.number_if_not("world_size", value.world_size, 0);
    object.number_if_not("group_world_size", value.group_world_size, 0);
    object.text_if_any("master_address", name_of(value.master_address));
    if (value.place) {
      object.name("place");
      write(line, *value.place);
    }
    object.number_if_not("grace_us", to_micros(value.grace), 0);
    object.number_if_not("exit_code", value.exit_code, 0);
    if (value.first_cause) {
      object.name("first_cause");
      write(line, *value.first_cause, room != tails::none);
    }
    object.text_if_any("text", sentence_of(value.text));
  }
  void operator()(const refused& value) const {
    json_writer object(line);
    object.text("type", "refused");
    object.number("exit_code", value.exit_code);
    object.text("text", sentence_of(value.text));
  }
  void operator()(const tether_answer& value) const {
    json_writer object(line);
    object.text("type", "tether_answer");
    object.number("seq", value.seq);
  }
};

std::string encode_any(const auto& message, std::size_t bytes_wanted = line_bytes_max) {
  std::string line;
  for (const tails room : {tails::all, tails::first_only, tails::none}) {
    line.clear();
    std::visit(line_of{line, room}, message);
    line += '\n';
    if (line.size() <= bytes_wanted) break;
  }
  // The other texts are bounded so that a line without tails always fits.
  DDPRUN_ASSERT(line.size() <= line_bytes_max);
  return line;
}

}  // namespace

std::string encode(const agent_message& message) {
  const bool is_first = std::holds_alternative<hello>(message);
  return encode_any(message, is_first ? hello_bytes_max : line_bytes_max);
}
std::string encode(const daemon_message& message) {
  return encode_any(message);
}
std::string encode(const tether_reply& message) {
  return encode_any(message);
}

}  // namespace ddprun::protocol
