// A JSON writer appends one object's fields to a line, in the given order.
//
// It keeps no document in memory: a line is one growing string.
//
// Ownership: the line must outlive the writer.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::protocol {

// Appends `text`, which must be valid UTF-8, as a JSON string with quotes.
void append_json_string(std::string& line, std::string_view text);

// Opens an object at construction and closes it at destruction.
class json_writer {
 public:
  explicit json_writer(std::string& line) : line_(line) { line_ += '{'; }
  ~json_writer() { line_ += '}'; }
  json_writer(const json_writer&) = delete;
  json_writer& operator=(const json_writer&) = delete;

  // Appends the name; the caller then appends the value to the line.
  void name(std::string_view name) {
    if (!first_) line_ += ',';
    first_ = false;
    line_ += '"';
    line_ += name;
    line_ += "\":";
  }

  void number(std::string_view field, std::integral auto value) {
    name(field);
    line_ += std::to_string(value);
  }
  // Writes true; a false flag is left out by the caller.
  void flag(std::string_view field) {
    name(field);
    line_ += "true";
  }
  void text(std::string_view field, std::string_view value) {
    name(field);
    append_json_string(line_, value);
  }

 private:
  std::string& line_;
  bool first_ = true;
};

}  // namespace ddprun::protocol
