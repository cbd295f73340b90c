// Calls worker/store_client as told on standard input and prints each result on a line, so that
// tests in Python can use the client. Values are hexadecimal.
//
//   store_talker HOST PORT
//   > set KEY VALUE          < ok
//   > get MILLISECONDS KEY   < value 7631        or: error ... still waiting after 50 ms
//   > add KEY 1              < number 1
//   > check KEY KEY          < number 0
#include "worker/store_client.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using ddprun::result;
using ddprun::worker::deadline;
using ddprun::worker::store_client;
using strings = std::vector<std::string>;

constexpr std::chrono::seconds patience(60);

std::string to_hex(std::string_view bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += digits[static_cast<unsigned char>(byte) >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t index = 0; index + 1 < text.size(); index += 2)
    bytes += static_cast<char>(std::stoi(text.substr(index, 2), nullptr, 16));
  return bytes;
}

std::string shown(std::int64_t number) {
  return "number " + std::to_string(number);
}
std::string shown(bool truth) {
  return shown(std::int64_t{truth});
}
std::string shown(const std::string& value) {
  return "value " + to_hex(value);
}
std::string shown(const std::optional<std::string>& value) {
  return value ? shown(*value) : "none";
}
std::string shown(const strings& values) {
  std::string text = "values";
  for (const std::string& value : values)
    text += " " + to_hex(value);
  return text;
}

class talker {
 public:
  explicit talker(store_client store) : store_(std::move(store)) {}

  // Executes a line, and returns the result as a line.
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    words_.clear();
    for (std::string word; words >> word;)
      words_.push_back(word);
    words_.resize(std::max<std::size_t>(words_.size(), 3));  // missing words are empty
    if (const auto found = writes_.find(name); found != writes_.end()) {
      return found->second() ? "error " + store_.problem() : "ok";
    }
    const auto found = reads_.find(name);
    return found == reads_.end() ? "error no such command: " + name : found->second();
  }

 private:
  template <typename T>
  std::string said(const result<T>& outcome) const {
    return outcome.has_value() ? shown(*outcome) : "error " + store_.problem();
  }
  const std::string& word(std::size_t index) const { return words_[index]; }
  std::int64_t number(std::size_t index) const { return std::atoll(words_[index].c_str()); }
  std::string value(std::size_t index) const { return from_hex(words_[index]); }
  deadline within(std::size_t index) const { return std::chrono::milliseconds(number(index)); }
  // The words from `first` on that are not empty.
  strings keys(std::size_t first) const {
    strings all;
    for (std::size_t index = first; index < words_.size(); ++index)
      if (!words_[index].empty()) all.push_back(words_[index]);
    return all;
  }
  std::vector<std::pair<std::string, std::string>> pairs() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (std::size_t index = 0; index + 1 < words_.size() && !word(index).empty(); index += 2)
      all.emplace_back(word(index), value(index + 1));
    return all;
  }

  store_client store_;
  strings words_;
  std::map<std::string, std::function<ddprun::error_code()>> writes_{
      {"set", [this] { return store_.set(word(0), value(1), patience); }},
      {"append", [this] { return store_.append(word(0), value(1), patience); }},
      {"multi_set", [this] { return store_.multi_set(pairs(), patience); }},
      {"queue_push", [this] { return store_.queue_push(word(0), value(1), patience); }},
      {"wait", [this] { return store_.wait(keys(1), within(0)); }},
      {"barrier",
       [this] {
         return store_.barrier(word(1), static_cast<std::uint32_t>(number(2)), within(0));
       }},
      {"prefix",
       [this] {
         store_ = store_.with_prefix(word(0));
         return ddprun::error_code();
       }},
  };
  std::map<std::string, std::function<std::string()>> reads_{
      {"get", [this] { return said(store_.get(word(1), within(0))); }},
      {"multi_get", [this] { return said(store_.multi_get(keys(1), within(0))); }},
      {"add", [this] { return said(store_.add(word(0), number(1), patience)); }},
      {"compare_set",
       [this] { return said(store_.compare_set(word(0), value(1), value(2), patience)); }},
      {"check", [this] { return said(store_.check(keys(0), patience)); }},
      {"delete_key", [this] { return said(store_.delete_key(word(0), patience)); }},
      {"num_keys", [this] { return said(store_.num_keys(patience)); }},
      {"list_keys", [this] { return said(store_.list_keys(patience)); }},
      {"queue_pop", [this] { return said(store_.queue_pop(word(1), within(0))); }},
      {"try_queue_pop", [this] { return said(store_.try_queue_pop(word(0), patience)); }},
      {"queue_len", [this] { return said(store_.queue_len(word(0), patience)); }},
      {"count_in", [this] { return said(store_.count_in(patience)); }},
  };
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: store_talker HOST PORT\n", stderr);
    return 2;
  }
  std::string problem;
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
  auto store = store_client::connect(argv[1], port, patience, problem, "talker");
  if (!store) {
    std::cerr << problem << std::endl;
    return 1;
  }
  talker talking(std::move(*store));
  for (std::string line; std::getline(std::cin, line);)
    std::cout << talking.answer(line) << std::endl;
}
