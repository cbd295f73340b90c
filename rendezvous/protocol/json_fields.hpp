// Reads typed fields, with their limits, out of one JSON object: the decoding half of
// agent_protocol.hpp. agent_fields.hpp explains its verbs.
//
// None of its texts can imitate our own output when it is shown: names with control characters are
// refused, and sentences and tails lose them. Texts can only be read through these verbs.
//
// After the first mistake all reads do nothing, so a message is read straight down and its verdict
// is looked at once.
//
// Only agent_protocol.cpp includes this, so that one file pays for the JSON library. Ownership:
// object and verdict must outlive the fields.
#pragma once

#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/core/messages/versions.hpp"
#include "rendezvous/protocol/agent_fields.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::protocol {

using nlohmann::json;

// The first mistake found in a line.
struct verdict {
  error_code error;
  std::string problem;
};

class fields {
 public:
  fields(const json& object, std::string where, verdict& found)
      : object_(object), where_(std::move(where)), found_(found) {
    if (!object_.is_object()) fail(errc::malformed_message, "", "is not an object");
  }

  bool good() const { return !found_.error; }

  void fail(errc error, std::string_view name, const std::string& what) {
    if (found_.error) return;
    found_.error = error;
    found_.problem = path(name) + ": " + what;
  }

  // Null if the field is missing or there was a mistake before.
  const json* find(std::string_view name) const {
    if (found_.error) return nullptr;
    const auto field = object_.find(name);
    return field == object_.end() ? nullptr : &*field;
  }

  const json* find(std::string_view name, presence wanted) {
    const json* const field = find(name);
    if (field == nullptr && wanted == presence::required && good()) {
      fail(errc::malformed_message, name, "is missing");
    }
    return field;
  }

  void check(std::string_view name, bool holds, std::string_view problem,
             std::string_view with = {}) {
    if (!holds) fail(errc::malformed_message, name, std::string(problem) + std::string(with));
  }
  void check_version(const hello& greeting) {
    const std::string problem = core::protocol_problem(greeting, version);
    if (good() && !problem.empty()) fail(errc::version_mismatch, "protocol", problem);
  }

  template <std::integral Number>
  void number(std::string_view name, Number& value, std::int64_t min, std::uint64_t max,
              presence wanted = presence::if_any) {
    const json* field = find(name, wanted);
    if (field == nullptr) return;
    if (!field->is_number_integer()) {
      return fail(errc::malformed_message, name, "is not an integer");
    }
    const bool fits = field->is_number_unsigned()
                          ? field->get<std::uint64_t>() <= max &&
                                (min <= 0 || field->get<std::uint64_t>() >= std::uint64_t(min))
                          : field->get<std::int64_t>() >= min;
    if (!fits) {
      return fail(
          errc::malformed_message, name,
          field->dump() + " is not in " + std::to_string(min) + " to " + std::to_string(max));
    }
    value = field->get<Number>();
  }
  void count(std::string_view name, std::uint64_t& value, presence wanted = presence::if_any) {
    number(name, value, 0, count_max, wanted);
  }
  void count_or(std::string_view name, std::uint64_t& value, std::uint64_t otherwise) {
    value = otherwise;
    count(name, value);
  }
  void u32(std::string_view name, std::uint32_t& value, presence wanted = presence::if_any) {
    number(name, value, 0, u32_max, wanted);
  }
  void u32(std::string_view name, std::optional<std::uint32_t>& value) {
    if (find(name) != nullptr) u32(name, value.emplace());
  }
  void port(std::string_view name, std::uint16_t& value) { number(name, value, 0, 65535); }

  void timer(std::string_view name, duration& value, duration min = {},
             presence wanted = presence::if_any) {
    span(name, value, min, timer_max, wanted);
  }
  void age(std::string_view name, duration& value, duration max) {
    span(name, value, {}, max, presence::if_any);
  }

  void flag(std::string_view name, bool& value) {
    const json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_boolean())
      return fail(errc::malformed_message, name, "is neither true nor false");
    value = field->get<bool>();
  }

  // A name; control characters, which no ddprun sends, are refused.
  void label(std::string_view name, std::string& value, presence wanted = presence::if_any) {
    text(name, value, name_bytes_max, wanted);
    check(name, !has_control_characters(value), "holds a control character");
  }
  void label_or(std::string_view name, std::string& value, std::string_view otherwise) {
    value = otherwise;
    label(name, value);
  }
  void sentence(std::string_view name, std::string& value, presence wanted = presence::if_any) {
    text(name, value, text_bytes_max, wanted);
    value = in_one_line(std::move(value));
  }
  void tail(std::string_view name, std::string& value, std::size_t bytes_max) {
    text(name, value, bytes_max, presence::if_any);
    value = in_lines(std::move(value));
  }
  // Data that is passed on; what no ddprun would send is refused.
  void opaque(std::string_view name, std::string& value, std::size_t bytes_max) {
    text(name, value, bytes_max, presence::if_any);
    check(name, core::is_opaque_data(value), core::opaque_data_problem);
  }
  void labels(std::string_view name, std::vector<std::string>& values, std::size_t count_limit) {
    const json* list = list_of(name, count_limit);
    if (list == nullptr) return;
    for (const json& item : *list) {
      if (!item.is_string() || item.get_ref<const std::string&>().size() > name_bytes_max ||
          has_control_characters(item.get_ref<const std::string&>())) {
        return fail(errc::malformed_message, name,
                    "holds something that is not a string of at most " +
                        std::to_string(name_bytes_max) + " bytes without control characters");
      }
      values.push_back(item.get<std::string>());
    }
  }

  void ends(std::string_view name, std::vector<ended_ranks>& values) {
    std::vector<std::string> texts;
    labels(name, texts, ends_max);
    for (const std::string& text : texts) {
      if (!read_ended_ranks(text, values)) {
        return fail(errc::malformed_message, name,
                    "contains too many ranks, or an invalid entry: \"" + text + "\"");
      }
    }
    const std::string detail = std::string(name) + "_detail";
    texts.clear();
    labels(detail, texts, ends_max);
    if (texts.size() > values.size()) {
      return fail(errc::malformed_message, detail,
                  "has more entries than there are ranges of ranks");
    }
    for (std::size_t index = 0; index < texts.size(); ++index) {
      if (!read_detail(texts[index], values[index])) {
        return fail(errc::malformed_message, detail,
                    "contains an invalid entry: \"" + texts[index] + "\"");
      }
    }
  }

  template <typename Value>
  void object(std::string_view name, Value& value) {
    const json* field = find(name);
    if (field == nullptr) return;
    fields inner(*field, path(name), found_);
    fields_of(inner, value);
  }
  template <typename Value>
  void object(std::string_view name, std::optional<Value>& value) {
    if (find(name) != nullptr) object(name, value.emplace());
  }

  template <typename Value>
  void list(std::string_view name, std::vector<Value>& values, std::size_t count_limit) {
    const json* items = list_of(name, count_limit);
    if (items == nullptr) return;
    for (const json& item : *items) {
      const std::string index = std::to_string(values.size());
      fields inner(item, path(std::string(name) + "[" + index + "]"), found_);
      fields_of(inner, values.emplace_back());
    }
  }

  // Returns an array within its limit, otherwise null.
  const json* list_of(std::string_view name, std::size_t count_limit) {
    const json* field = find(name);
    if (field == nullptr) return nullptr;
    if (!field->is_array()) {
      fail(errc::malformed_message, name, "is not an array");
      return nullptr;
    }
    if (field->size() > count_limit) {
      fail(errc::message_too_long, name,
           std::to_string(field->size()) + " items, the limit is " + std::to_string(count_limit));
      return nullptr;
    }
    return field;
  }

  void hexadecimal(std::string_view name, std::uint64_t& value,
                   presence wanted = presence::if_any) {
    std::string digits;
    text(name, digits, 16, wanted);
    if (find(name) == nullptr) return;
    if (digits.empty() || !parse_hex(digits, value)) {
      fail(errc::malformed_message, name, "is not a string of 1 to 16 hexadecimal digits");
    }
  }

  void session(std::string_view name, session_id& value) {
    std::string digits;
    label(name, digits, presence::required);
    if (!good()) return;
    if (digits.size() != 32 || !parse_hex(std::string_view(digits).substr(0, 16), value.high) ||
        !parse_hex(std::string_view(digits).substr(16), value.low) || !value) {
      fail(errc::malformed_message, name, "is not a string of 32 hexadecimal digits, not all 0");
    }
  }

  // Reads one of the words of an enumeration whose last value is `last`.
  template <typename Enum>
  void word(std::string_view name, Enum& value, Enum last, std::string_view what,
            presence wanted = presence::always) {
    std::string found;
    label(name, found, wanted);
    if (find(name) == nullptr) return;
    for (int index = 0; index <= static_cast<int>(last); ++index) {
      if (to_string(static_cast<Enum>(index)) == found) {
        value = static_cast<Enum>(index);
        return;
      }
    }
    fail(errc::unknown_message, name,
         "\"" + found + "\" is no " + std::string(what) + " that this version knows; " +
             std::string(core::same_version_advice));
  }

  std::string path(std::string_view name) const {
    if (name.empty()) return where_;
    return where_ + "." + std::string(name);
  }

 private:
  // Reads the text unchanged.
  void text(std::string_view name, std::string& value, std::size_t bytes_max, presence wanted) {
    const json* field = find(name, wanted);
    if (field == nullptr) return;
    if (!field->is_string()) return fail(errc::malformed_message, name, "is not a string");
    const auto& found = field->get_ref<const std::string&>();
    if (found.size() > bytes_max) {
      return fail(
          errc::message_too_long, name,
          std::to_string(found.size()) + " bytes, the limit is " + std::to_string(bytes_max));
    }
    value = found;
  }

  void span(std::string_view name, duration& value, duration min, duration max, presence wanted) {
    if (find(name, wanted) == nullptr) return;
    std::int64_t count = to_micros(value);
    number(name, count, to_micros(min), static_cast<std::uint64_t>(to_micros(max)));
    value = std::chrono::microseconds(count);
  }

  static bool parse_hex(std::string_view digits, std::uint64_t& value) {
    std::uint64_t parsed = 0;
    for (const char digit : digits) {
      int nibble = 0;
      if (digit >= '0' && digit <= '9') {
        nibble = digit - '0';
      } else if (digit >= 'a' && digit <= 'f') {
        nibble = digit - 'a' + 10;
      } else {
        return false;
      }
      parsed = parsed << 4 | static_cast<std::uint64_t>(nibble);
    }
    value = parsed;
    return true;
  }

  const json& object_;
  std::string where_;
  verdict& found_;
};

}  // namespace ddprun::protocol
