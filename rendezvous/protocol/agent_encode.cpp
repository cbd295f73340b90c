// The encoding half of agent_protocol.hpp; agent_protocol.cpp decodes.
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/protocol/agent_fields.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"
#include "rendezvous/protocol/json_writer.hpp"

#include <algorithm>
#include <array>

namespace ddprun::protocol {

void append_json_string(std::string& line, std::string_view text) {
  // Escapes only what JSON requires. Line feeds and tabs, of which tails are full, take two bytes
  // each.
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

// The tails for which a line has room; each step is tried only if the one before was too long.
enum class tails { all, first_only, none };

// Prepares names and sentences: without control characters, escaping at most doubles them.
std::string plain(std::string_view value, std::size_t bytes_max) {
  std::string text = in_one_line(to_valid_utf8(value));
  text.resize(first_of(text, bytes_max).size());
  return text;
}

// Writes one object; agent_fields.hpp explains its verbs. Ranges are only checked by readers.
class field_writer {
 public:
  field_writer(std::string& line, tails room) : line_(line), object_(line), room_(room) {}

  void type(std::string_view name) { object_.text("type", name); }

  void number(std::string_view name, std::integral auto value, std::int64_t, std::uint64_t,
              presence wanted = presence::if_any) {
    if (value != 0 || wanted != presence::if_any) object_.number(name, value);
  }
  void count(std::string_view name, std::uint64_t value, presence wanted = presence::if_any) {
    number(name, value, 0, count_max, wanted);
  }
  void count_or(std::string_view name, std::uint64_t value, std::uint64_t otherwise) {
    if (value != otherwise) object_.number(name, value);
  }
  void u32(std::string_view name, std::uint32_t value, presence wanted = presence::if_any) {
    number(name, value, 0, u32_max, wanted);
  }
  void u32(std::string_view name, const std::optional<std::uint32_t>& value) {
    if (value) object_.number(name, *value);
  }
  void port(std::string_view name, std::uint16_t value) { count(name, value); }

  void timer(std::string_view name, duration value, duration = {},
             presence wanted = presence::if_any) {
    number(name, to_micros(value), 0, count_max, wanted);
  }
  void age(std::string_view name, duration value, duration max) {
    timer(name, std::clamp(value, duration::zero(), max));
  }

  void flag(std::string_view name, bool value) {
    if (value) object_.flag(name);
  }
  void hexadecimal(std::string_view name, std::uint64_t value, presence wanted = presence::if_any) {
    if (value != 0 || wanted != presence::if_any) object_.text(name, to_hex(value));
  }
  void session(std::string_view name, session_id value) { object_.text(name, to_string(value)); }
  template <typename Enum>
  void word(std::string_view name, Enum value, Enum, std::string_view,
            presence = presence::always) {
    object_.text(name, to_string(value));
  }

  void label(std::string_view name, std::string_view value, presence wanted = presence::if_any) {
    text(name, value, name_bytes_max, wanted);
  }
  void label_or(std::string_view name, std::string_view value, std::string_view otherwise) {
    if (value != otherwise) label(name, value, presence::always);
  }
  void sentence(std::string_view name, std::string_view value, presence wanted = presence::if_any) {
    text(name, value, text_bytes_max, wanted);
  }
  void tail(std::string_view name, std::string_view value, std::size_t bytes_max) {
    if (room_ == tails::none || value.empty()) return;
    object_.text(name, last_of(in_lines(to_valid_utf8(value)), bytes_max));
  }
  // Data that no reader would accept is left out: half of it would be worse than none.
  void opaque(std::string_view name, std::string_view value, std::size_t bytes_max) {
    if (value.empty() || value.size() > bytes_max || !core::is_opaque_data(value)) return;
    object_.text(name, value);
  }
  void labels(std::string_view name, const std::vector<std::string>& values,
              std::size_t count_limit) {
    if (values.empty()) return;
    object_.name(name);
    line_ += '[';
    for (std::size_t index = 0; index < std::min(values.size(), count_limit); ++index) {
      if (index != 0) line_ += ',';
      append_json_string(line_, plain(values[index], name_bytes_max));
    }
    line_ += ']';
  }

  void ends(std::string_view name, const std::vector<ended_ranks>& values) {
    labels(name, to_texts(values), ends_max);
    std::vector<std::string> details;
    bool is_any = false;
    for (const ended_ranks& value : values) {
      details.push_back(detail_text(value));
      is_any = is_any || !details.back().empty();
    }
    if (is_any) labels(std::string(name) + "_detail", details, ends_max);
  }

  template <typename Value>
  void object(std::string_view name, const Value& value) {
    object_.name(name);
    field_writer inner(line_, room_);
    fields_of(inner, value);
  }
  template <typename Value>
  void object(std::string_view name, const std::optional<Value>& value) {
    if (value) object(name, *value);
  }
  template <typename Value>
  void list(std::string_view name, const std::vector<Value>& values, std::size_t count_limit) {
    if (values.empty()) return;
    object_.name(name);
    line_ += '[';
    for (std::size_t index = 0; index < std::min(values.size(), count_limit); ++index) {
      if (index != 0) line_ += ',';
      // With little room only the first item, the first of the causes in a status, keeps its tail.
      field_writer inner(line_, index == 0 || room_ == tails::all ? room_ : tails::none);
      fields_of(inner, values[index]);
    }
    line_ += ']';
  }

  void check(std::string_view, bool, std::string_view, std::string_view = {}) {}
  void check_version(const hello&) {}

 private:
  void text(std::string_view name, std::string_view value, std::size_t bytes_max, presence wanted) {
    if (value.empty() && wanted == presence::if_any) return;
    object_.text(name, plain(value, bytes_max));
  }

  std::string& line_;
  json_writer object_;
  tails room_;
};

std::string encode_any(const auto& message, std::size_t bytes_wanted = line_bytes_max) {
  std::string line;
  for (const tails room : {tails::all, tails::first_only, tails::none}) {
    line.clear();
    std::visit(
        [&]<typename Message>(const Message& value) {
          field_writer object(line, room);
          object.type(type_name<Message>);
          fields_of(object, value);
        },
        message);
    line += '\n';
    if (line.size() <= bytes_wanted) break;
  }
  // The other texts are bounded, so a line without tails always fits.
  DDPRUN_ASSERT(line.size() <= line_bytes_max);
  return line;
}

}  // namespace

std::string encode(const agent_message& message) {
  // A daemon takes less of a peer that it does not know yet.
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
