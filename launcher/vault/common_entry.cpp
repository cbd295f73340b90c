#include "launcher/vault/common_entry.hpp"

#include "launcher/base/text.hpp"
#include "launcher/vault/entry_origin.hpp"
#include "launcher/vault/next_word.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view first_of_word = "ddprun vault 2";
constexpr std::size_t text_bytes_max = 256;  // of an address or a token

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

std::optional<held_entry> read_held(std::string_view line) {
  const auto of = whole_number<std::uint32_t>(next_word(line));
  const auto order = whole_number<std::int64_t>(next_word(line));
  auto from = take_origin(line);
  if (!of || !order || *order < 0 || !from || !is_safe_path(line)) return std::nullopt;
  return held_entry{*of, {*order, std::string(line)}, std::move(*from)};
}

node_word without_vault() {
  node_word word;
  word.has_vault = false;
  return word;
}

bool read_line(std::string_view line, node_word& word) {
  const std::string_view what = next_word(line);
  if (what == "without") {
    word.has_vault = false;
    return line.empty() && word == without_vault();
  }
  if (!word.has_vault) return false;
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
    auto one = read_held(line);
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

using parts_by_key = std::map<entry_key, common_part>;
using all_parts = std::map<std::uint32_t, parts_by_key>;  // by the node that saved them

// Returns the parts that may be taken; of one name and origin, only the newest.
all_parts parts_of(const std::vector<node_word>& words) {
  all_parts all;
  const std::set<owned_version> aside = aside_of(words);
  for (std::uint32_t holder = 0; holder < words.size(); ++holder) {
    for (const held_entry& one : words[holder].held) {
      // The node's group rank no longer exists in this smaller round.
      const bool is_of_larger_world = one.of >= words.size();
      if (is_of_larger_world || aside.contains({one.of, one.what})) continue;
      common_part& part = all[one.of][{one.what.name, one.from}];
      // Of two versions with one name and origin, only the newer is used.
      if (one.what.order < part.what.order) continue;
      if (one.what.order > part.what.order) part.holders.clear();
      part.of = one.of;
      part.what = one.what;
      if (part.holders.empty() || part.holders.back() != holder) part.holders.push_back(holder);
    }
  }
  return all;
}

std::set<std::uint32_t> savers_of(const std::vector<node_word>& words, const all_parts& all) {
  std::set<std::uint32_t> savers;
  for (const auto& [node, parts] : all) {
    for (const auto& [key, part] : parts) {
      if (key.from.has_part_of(node)) savers.insert(node);
    }
  }
  for (const node_word& word : words) {
    for (const std::uint32_t node : word.savers) {
      if (node < words.size()) savers.insert(node);
    }
  }
  return savers;
}

// Returns the part for each node; empty if a node that has saved lacks its part or its vault.
std::map<std::uint32_t, common_part> parts_for(const entry_key& key, const all_parts& all,
                                               const std::set<std::uint32_t>& savers,
                                               const std::vector<node_word>& words) {
  std::map<std::uint32_t, common_part> parts;
  for (const std::uint32_t node : savers) {
    if (!key.from.has_part_of(node)) continue;
    const auto found = all.find(node);
    if (found == all.end() || !found->second.contains(key) || !words[node].has_vault) return {};
    parts.emplace(node, found->second.at(key));
  }
  // Only if every node of that round has saved a part, newcomers are given one of them.
  if (parts.size() != key.from.nodes) return parts;
  for (std::uint32_t node = key.from.nodes; node < words.size(); ++node) {
    if (words[node].has_vault) parts.emplace(node, parts.at(node % key.from.nodes));
  }
  return parts;
}

}  // namespace

std::string to_text(const node_word& word) {
  std::string text = std::string(first_of_word) + "\n";
  if (!word.has_vault) return text + "without\n";
  if (!word.address.empty())
    text += "at " + std::to_string(word.port) + " " + word.address + "\ntoken " + word.token + "\n";
  for (const std::uint32_t node : word.savers)
    text += "saves " + std::to_string(node) + "\n";
  for (const held_entry& one : word.held) {
    text += "holds " + std::to_string(one.of) + " " + std::to_string(one.what.order) + " " +
            to_text(one.from) + " " + one.what.name + "\n";
  }
  for (const owned_version& one : word.aside) {
    text += "aside " + std::to_string(one.of) + " " + std::to_string(one.what.order) + " " +
            one.what.name + "\n";
  }
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

std::uint32_t next_with_vault(const std::vector<node_word>& words, std::uint32_t node) {
  const auto nodes = static_cast<std::uint32_t>(words.size());
  std::uint32_t next = node;
  do {
    next = (next + 1) % nodes;
  } while (next != node && !words[next].has_vault);
  return next;
}

std::set<owned_version> aside_of(const std::vector<node_word>& words) {
  std::set<owned_version> all;
  for (const node_word& word : words)
    all.insert(word.aside.begin(), word.aside.end());
  return all;
}

common_choice choose_common(const std::vector<node_word>& words,
                            const std::set<entry_key>& excluded) {
  common_choice choice;
  const all_parts all = parts_of(words);
  choice.savers = savers_of(words, all);
  if (choice.savers.empty()) return choice;
  const auto first = all.find(*choice.savers.begin());
  const common_part* newest = nullptr;
  if (first != all.end()) {
    for (const auto& [key, part] : first->second) {
      if (excluded.contains(key) || (newest != nullptr && part.what < newest->what)) continue;
      auto parts = parts_for(key, all, choice.savers, words);
      // A rank that has saved needs its part; without it this entry cannot be taken.
      if (!parts.contains(first->first)) continue;
      newest = &part;
      choice.key = key;
      choice.parts = std::move(parts);
    }
  }
  for (const std::uint32_t node : choice.savers) {
    const auto parts = all.find(node);
    if (parts == all.end()) continue;
    const auto taken = choice.parts.find(node);
    const std::int64_t order = taken == choice.parts.end() ? -1 : taken->second.what.order;
    for (const auto& [key, part] : parts->second)
      choice.is_any_newer = choice.is_any_newer || part.what.order > order;
  }
  return choice;
}

}  // namespace ddprun::launcher::vault
