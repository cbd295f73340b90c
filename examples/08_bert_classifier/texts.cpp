#include "examples/08_bert_classifier/texts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

namespace bert_classifier {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t class_words_min = 1000;
constexpr std::size_t sample_words_min = 8;
constexpr std::size_t test_share = 5;

using paragraph = std::vector<std::string>;

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  for (const char each : line + ' ') {
    const char lower = each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
    if (lower >= 'a' && lower <= 'z') {
      word += lower;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

std::vector<paragraph> read_paragraphs(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<paragraph> all(1);
  for (std::string line; std::getline(file, line);) {
    const auto words = words_of(line);
    if (!words.empty()) {
      all.back().insert(all.back().end(), words.begin(), words.end());
    } else if (!all.back().empty()) {
      all.emplace_back();
    }
  }
  if (!file.is_open() || file.bad()) {
    throw std::runtime_error("cannot read " + path.string() + ": " + std::strerror(errno));
  }
  return all;
}

std::size_t count_words(const std::vector<paragraph>& paragraphs) {
  std::size_t count = 0;
  for (const auto& each : paragraphs)
    count += each.size();
  return count;
}

// The regular files, sorted by name.
std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->symlink_status().type() == fs::file_type::regular) files.push_back(at->path());
  }
  if (failure) {
    throw std::runtime_error("cannot read the folder " + folder + ": " + failure.message() +
                             "; --data names another one");
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The paragraphs of each class, by name.
std::map<std::string, std::vector<paragraph>> read_classes(const std::string& folder) {
  std::map<std::string, std::vector<paragraph>> classes;
  for (const auto& path : files_of(folder)) {
    const auto name = path.filename().string();
    auto& text = classes[name.substr(0, name.find_first_of("-."))];
    for (auto& each : read_paragraphs(path))
      text.push_back(std::move(each));
  }
  std::erase_if(classes,
                [](const auto& each) { return count_words(each.second) < class_words_min; });
  if (classes.size() < 2) {
    throw std::runtime_error(folder + " has " + std::to_string(classes.size()) +
                             " kinds of texts with a thousand words or more, and it takes two to "
                             "tell apart; --data names another folder");
  }
  return classes;
}

std::map<std::string, std::int64_t> number_words(
    const std::map<std::string, std::vector<paragraph>>& classes, std::size_t vocabulary_max) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [name, paragraphs] : classes) {
    for (const auto& each : paragraphs) {
      for (const auto& word : each)
        ++counts[word];
    }
  }
  std::vector<std::pair<std::string, std::size_t>> by_count(counts.begin(), counts.end());
  std::stable_sort(by_count.begin(), by_count.end(),
                   [](const auto& left, const auto& right) { return left.second > right.second; });
  const std::size_t kept = vocabulary_max - static_cast<std::size_t>(token_first_word);
  if (by_count.size() > kept) by_count.resize(kept);
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [word, count] : by_count)
    numbers.emplace(word, token_first_word + static_cast<std::int64_t>(numbers.size()));
  return numbers;
}

}  // namespace

texts read_texts(const std::string& folder, std::size_t length, std::size_t vocabulary_max) {
  const auto classes = read_classes(folder);
  const auto numbers = number_words(classes, vocabulary_max);
  texts made;
  made.vocabulary = numbers.size() + static_cast<std::size_t>(token_first_word);
  const auto add = [&](samples& to, const std::string* words, std::size_t count) {
    to.tokens.push_back(token_class);
    for (std::size_t index = 0; index < length - 1; ++index) {
      if (index >= count) {
        to.tokens.push_back(token_padding);
        continue;
      }
      const auto known = numbers.find(words[index]);
      to.tokens.push_back(known == numbers.end() ? token_unknown : known->second);
    }
    to.labels.push_back(static_cast<std::int64_t>(made.classes.size()));
  };
  for (const auto& [name, paragraphs] : classes) {
    std::size_t number = 0;
    for (const auto& words : paragraphs) {
      for (std::size_t first = 0; first < words.size(); first += length - 1) {
        const std::size_t count = std::min(length - 1, words.size() - first);
        if (count < sample_words_min) continue;
        add(++number % test_share == 0 ? made.test : made.train, &words[first], count);
      }
    }
    made.classes.push_back(name);
  }
  return made;
}

}  // namespace bert_classifier
