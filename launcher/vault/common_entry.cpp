#include "launcher/vault/common_entry.hpp"

#include "launcher/base/text.hpp"
#include "launcher/vault/next_word.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view first_of_word = "ddprun vault 1";
constexpr std::size_t text_bytes_max = 256;  // of an address, of a token

bool is_plain(std::string_view text) {
  return text.size() <= text_bytes_max &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 127; });
}

std::optional<owned_version> read_owned(std::string_view line) {
  const auto of = whole_number<std::uint32_t>(next_word(line));
  const auto order = whole_number<std::int64_t>(next_word(line));
  if (!of || !order || *order < 0 || !is_safe_path(line)) return std::nullopt;
  return owned_version{*of, {*order, std::string(line)}};
}

std::string owned_text(std::string_view word, const owned_version& one) {
  return std::string(word) + " " + std::to_string(one.of) + " " + std::to_string(one.what.order) +
         " " + one.what.name + "\n";
}

bool read_line(std::string_view line, node_word& word) {
  const std::string_view what = next_word(line);
  if (what == "at") {
    const auto port = whole_number<std::uint16_t>(next_word(line));
    if (!port || !is_plain(line)) return false;
    word.port = *port;
    word.address = line;
  } else if (what == "token") {
    if (!is_plain(line)) return false;
    word.token = line;
  } else if (what == "saves") {
    const auto node = whole_number<std::uint32_t>(line);
    if (!node) return false;
    word.savers.insert(*node);
  } else if (what == "holds") {
    auto one = read_owned(line);
    if (!one || word.held.size() == held_max) return false;
    word.held.push_back(std::move(*one));
  } else if (what == "aside") {
    auto one = read_owned(line);
    if (!one || word.aside.size() == held_max) return false;
    word.aside.insert(std::move(*one));
  } else {
    return false;
  }
  return true;
}

using parts_by_name = std::map<std::string, common_part>;

// Of each node, by name, the newest of that name.
std::map<std::uint32_t, parts_by_name> parts_of(const std::vector<node_word>& words) {
  std::map<std::uint32_t, parts_by_name> all;
  const std::set<owned_version> aside = aside_of(words);
  for (std::uint32_t holder = 0; holder < words.size(); ++holder) {
    for (const owned_version& one : words[holder].held) {
      const bool is_of_larger_world = one.of >= words.size();
      if (is_of_larger_world || aside.contains(one)) continue;
      common_part& part = all[one.of][one.what.name];
      if (one.what.order < part.what.order) continue;
      if (one.what.order > part.what.order) part.holders.clear();
      part.what = one.what;
      if (part.holders.empty() || part.holders.back() != holder) part.holders.push_back(holder);
    }
  }
  return all;
}

}  // namespace

std::string to_text(const node_word& word) {
  std::string text = std::string(first_of_word) + "\n";
  if (!word.address.empty())
    text += "at " + std::to_string(word.port) + " " + word.address + "\ntoken " + word.token + "\n";
  for (const std::uint32_t node : word.savers)
    text += "saves " + std::to_string(node) + "\n";
  for (const owned_version& one : word.held)
    text += owned_text("holds", one);
  for (const owned_version& one : word.aside)
    text += owned_text("aside", one);
  return text;
}

std::optional<node_word> parse_word(std::string_view text) {
  if (text.size() > word_bytes_max || !text.ends_with('\n')) return std::nullopt;
  text.remove_suffix(1);
  node_word word;
  bool is_first = true;
  for (const std::string_view line : split(text, '\n')) {
    const bool is_read = is_first ? line == first_of_word : read_line(line, word);
    if (!is_read) return std::nullopt;
    is_first = false;
  }
  return word;
}

std::set<owned_version> aside_of(const std::vector<node_word>& words) {
  std::set<owned_version> all;
  for (const node_word& word : words)
    all.insert(word.aside.begin(), word.aside.end());
  return all;
}

common_choice choose_common(const std::vector<node_word>& words,
                            const std::set<std::string>& excluded) {
  common_choice choice;
  const auto all = parts_of(words);
  for (const auto& [node, parts] : all)
    choice.savers.insert(node);
  for (const node_word& word : words) {
    for (const std::uint32_t node : word.savers) {
      if (node < words.size()) choice.savers.insert(node);
    }
  }
  if (choice.savers.empty()) return choice;
  const auto first = all.find(*choice.savers.begin());
  const common_part* newest = nullptr;
  if (first != all.end()) {
    for (const auto& one : first->second) {
      const std::string& name = one.first;
      const common_part& part = one.second;
      const bool is_everywhere =
          std::all_of(choice.savers.begin(), choice.savers.end(), [&](std::uint32_t node) {
            const auto found = all.find(node);
            return found != all.end() && found->second.contains(name);
          });
      if (!is_everywhere || excluded.contains(name)) continue;
      if (newest == nullptr || part.what > newest->what) newest = &part;
    }
  }
  for (const auto& [node, parts] : all) {
    std::int64_t order = -1;
    if (newest != nullptr) {
      const common_part& part = parts.at(newest->what.name);
      order = part.what.order;
      choice.parts.emplace(node, part);
    }
    choice.is_any_newer =
        choice.is_any_newer || std::any_of(parts.begin(), parts.end(), [&](const auto& each) {
          return each.second.what.order > order;
        });
  }
  return choice;
}

}  // namespace ddprun::launcher::vault
