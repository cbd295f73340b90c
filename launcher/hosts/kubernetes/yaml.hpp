// Writes YAML 1.2 line by line, with comments, and quotes what has to be quoted: any text that is
// UTF-8 comes back as it was. A quoted scalar is a JSON string, which is YAML.
//
// Thread rule: one thread at a time; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher::kubernetes {

// As it stands where every reader of YAML 1.1 and 1.2 takes it for this very text, else in quotes.
std::string yaml_text(std::string_view text);

class yaml_writer {
 public:
  using content = std::function<void()>;

  // Parts the documents of one stream; before each of them.
  void document();
  // A line each, "# " in front.
  void comment(std::string_view lines);

  void entry(std::string_view key, std::string_view text);
  void entry(std::string_view key, const char* text) { entry(key, std::string_view(text)); }
  void entry(std::string_view key, std::int64_t number);
  void truth(std::string_view key, bool value);
  // "key: {}".
  void nothing(std::string_view key);
  // A mapping or a list below `key`.
  void group(std::string_view key, const content& write);
  // One of a list: a mapping.
  void item(const content& write);
  // One of a list: a scalar.
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
