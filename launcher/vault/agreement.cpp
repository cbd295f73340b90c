#include "launcher/vault/agreement.hpp"

#include "worker/store_client.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_limit = 10s;
constexpr auto ask_limit = 10s;
constexpr auto ask_interval = 200ms;
constexpr auto part_limit = 600s;  // for a part that comes from another node

class round_table {
 public:
  round_table(worker::store_client store, const round_place& here,
              const std::function<bool()>& goes_on)
      : store_(store.with_prefix("ddprun-vault/" + std::to_string(here.round))),
        here_(here),
        goes_on_(goes_on) {}

  bool say(const std::string& what, const std::string& text, std::string& problem) {
    if (!store_.set(key(what, here_.group_rank), text, ask_limit)) return true;
    problem = store_.problem();
    return false;
  }

  std::optional<std::vector<std::string>> hear(const std::string& what, duration limit,
                                               std::string& problem) {
    std::vector<std::string> keys;
    for (std::uint32_t node = 0; node < here_.nodes; ++node)
      keys.push_back(key(what, node));
    const worker::deadline until = limit;
    while (const error_code error = store_.wait(keys, ask_interval)) {
      if (!goes_on_()) return std::nullopt;
      if (error == errc::timed_out && !until.passed()) continue;
      problem = error == errc::timed_out ? who_is_silent(keys) : store_.problem();
      return std::nullopt;
    }
    auto found = store_.multi_get(keys, ask_limit);
    if (!found) problem = store_.problem();
    if (!found) return std::nullopt;
    return std::move(*found);
  }

 private:
  static std::string key(const std::string& what, std::uint32_t node) {
    return what + "/" + std::to_string(node);
  }
  std::string who_is_silent(const std::vector<std::string>& keys) {
    std::string nodes;
    std::size_t count = 0;
    for (std::uint32_t node = 0; node < here_.nodes && count < 4; ++node) {
      const auto is_there = store_.check(std::span(&keys[node], 1), ask_limit);
      if (is_there && *is_there) continue;
      nodes += (nodes.empty() ? "" : ", ") + std::to_string(node);
      ++count;
    }
    return "node " + nodes + " does not say what its vault holds (is --vault on its command " +
           "line, too?)";
  }

  worker::store_client store_;
  const round_place& here_;
  const std::function<bool()>& goes_on_;
};

}  // namespace

std::optional<agreed> agree(const round_place& here, const node_word& own,
                            const std::function<bool()>& goes_on,
                            const std::function<bool(const agreed& so_far)>& bring,
                            std::string& problem) {
  auto store = worker::store_client::connect(here.store_address, here.store_port, connect_limit,
                                             problem, "vault");
  if (!store) return std::nullopt;
  round_table table(std::move(*store), here, goes_on);
  if (!table.say("word", to_text(own), problem)) return std::nullopt;
  const auto said = table.hear("word", here.word_limit, problem);
  if (!said) return std::nullopt;
  agreed found;
  for (std::uint32_t node = 0; node < here.nodes; ++node) {
    auto word = parse_word((*said)[node]);
    if (!word) {
      problem = "node " + std::to_string(node) + " says of its vault what cannot be read";
      return std::nullopt;
    }
    found.words.push_back(std::move(*word));
  }
  std::set<entry_key> excluded;
  for (std::uint32_t turn = 1;; ++turn) {
    found.choice = choose_common(found.words, excluded);
    if (found.choice.parts.empty()) return found;
    const bool has_it = bring(found);
    if (!goes_on()) return std::nullopt;
    const std::string what = "has-" + std::to_string(turn);
    if (!table.say(what, has_it ? "yes" : "no", problem)) return std::nullopt;
    const auto answers = table.hear(what, part_limit, problem);
    if (!answers) return std::nullopt;
    const bool have_all = std::all_of(answers->begin(), answers->end(),
                                      [](const std::string& one) { return one == "yes"; });
    if (have_all) return found;
    excluded.insert(found.choice.key);
  }
}

}  // namespace ddprun::launcher::vault
