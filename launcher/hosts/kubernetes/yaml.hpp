// Writes YAML 1.2 line by line, with comments, and quotes text that needs it: any UTF-8 text is
// read back unchanged. A quoted scalar is a JSON string, which is valid YAML.
//
// Thread rule: one thread at a time; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher::kubernetes {

// Unquoted if every reader of YAML 1.1 and 1.2 reads it as this text, otherwise quoted.
std::string yaml_text(std::string_view text);

class yaml_writer {
 public:
  using content = std::function<void()>;

  // Separates the documents of a stream; call it before each.
  void document();
  // Writes each line with "# " before it.
  void comment(std::string_view lines);

  void entry(std::string_view key, std::string_view text);
  void entry(std::string_view key, const char* text) { entry(key, std::string_view(text)); }
  void entry(std::string_view key, std::int64_t number);
  void truth(std::string_view key, bool value);
  // Writes "key: {}".
  void nothing(std::string_view key);
  // Writes a mapping or a list below `key`.
  void group(std::string_view key, const content& write);
  // Writes a list item that is a mapping.
  void item(const content& write);
  // Writes a list item that is a scalar.
  void item(std::string_view text);
  void item(std::int64_t number);

  const std::string& text() const { return text_; }

 private:
  void line(std::string_view words);

  std::string text_;
  std::size_t depth_ = 0;
  bool begins_item_ = false;
};

}  // namespace ddprun::launcher::kubernetes
