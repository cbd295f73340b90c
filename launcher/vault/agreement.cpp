#include "launcher/vault/agreement.hpp"

#include "worker/store_client.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_limit = 10s;
constexpr auto ask_limit = 10s;
constexpr auto ask_interval = 200ms;
constexpr auto beat_interval = 1s;
constexpr auto leave_limit = 1s;  // the round may be over, and its store gone

constexpr std::string_view yes = "yes";
constexpr std::string_view no = "no";
constexpr std::string_view apart = "apart ";
constexpr std::string_view silent = "silent ";

class round_table {
 public:
  round_table(worker::store_client store, const round_place& here,
              const std::function<bool()>& goes_on)
      : store_(store.with_prefix("ddprun-vault/" + std::to_string(here.round))),
        here_(here),
        goes_on_(goes_on) {}

  // False: the store does not take it.
  bool say(const std::string& what, std::string_view text) {
    return is_done(store_.set(key(what, here_.group_rank), text, ask_limit));
  }

  // What all have said, or what was decided without it. None: the round is over for this node, or
  // the store is.
  struct heard {
    std::vector<std::string> all;
    std::string verdict;  // empty: there is none yet
  };
  std::optional<heard> hear(const std::string& what, std::uint32_t turn) {
    const std::vector<std::string> keys = keys_of(what);
    const worker::deadline words_until = here_.word_limit;
    while (true) {
      const error_code error = store_.wait(keys, ask_interval);
      if (!error) break;
      if (error != errc::timed_out && !is_done(error)) return std::nullopt;
      if (!goes_on()) return std::nullopt;
      std::string verdict = decided(turn);
      if (verdict.empty()) {
        const std::string why =
            turn != 0 ? who_is_lost(keys)
                      : (words_until.passed() ? std::string(silent) + who_is_late(keys) : "");
        if (!why.empty()) verdict = decide(turn, why);
      }
      // Where one has heard all words they are there.
      if (!verdict.empty() && (turn != 0 || verdict != yes)) return heard{{}, std::move(verdict)};
    }
    auto found = store_.multi_get(keys, ask_limit);
    if (!found && !is_done(found.error())) return std::nullopt;
    return heard{std::move(*found), {}};
  }

  // Whoever comes first decides. Returns what was decided; empty: the store does not answer.
  std::string decide(std::uint32_t turn, std::string_view proposed,
                     const worker::deadline& until = ask_limit) {
    auto found = store_.compare_set(verdict_key(turn), "", proposed, until);
    if (!found && !is_done(found.error())) return {};
    return std::move(*found);
  }

  // With a heartbeat, from time to time.
  bool goes_on() {
    if (!goes_on_()) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now < beat_again_) return true;
    beat_again_ = now + beat_interval;
    return say("alive", std::to_string(++beats_));
  }

  const std::string& problem() const { return problem_; }

 private:
  std::string key(const std::string& what, std::uint32_t node) const {
    return what + "/" + std::to_string(node);
  }
  static std::string verdict_key(std::uint32_t turn) { return "verdict-" + std::to_string(turn); }
  std::vector<std::string> keys_of(const std::string& what) const {
    std::vector<std::string> keys;
    for (std::uint32_t node = 0; node < here_.nodes; ++node)
      keys.push_back(key(what, node));
    return keys;
  }
  bool is_done(const error_code& error) {
    if (error) problem_ = store_.problem();
    return !error;
  }
  bool is_there(const std::string& one) {
    const auto found = store_.check(std::span(&one, 1), ask_limit);
    return found && *found;
  }
  std::string decided(std::uint32_t turn) {
    if (!is_there(verdict_key(turn))) return {};
    auto found = store_.get(verdict_key(turn), ask_limit);
    return found ? std::move(*found) : std::string();
  }
  std::string who_is_late(const std::vector<std::string>& keys) {
    std::string nodes;
    std::size_t count = 0;
    for (std::uint32_t node = 0; node < here_.nodes && count < 4; ++node) {
      if (is_there(keys[node])) continue;
      nodes += (nodes.empty() ? "" : ", ") + std::to_string(node);
      ++count;
    }
    return "node " + nodes + " does not say what its vault holds (is --vault on its command " +
           "line, too?)";
  }
  // By this node's clock alone, and by what has changed.
  std::string who_is_lost(const std::vector<std::string>& keys) {
    const auto now = std::chrono::steady_clock::now();
    if (now < look_again_) return {};
    look_again_ = now + beat_interval;
    const auto beats = store_.multi_get(keys_of("alive"), ask_limit);
    if (!beats) return {};
    for (std::uint32_t node = 0; node < here_.nodes; ++node) {
      life& one = lives_[node];
      if (one.beat != (*beats)[node]) one = {(*beats)[node], now};
      if (node == here_.group_rank || now - one.since < here_.silence_limit) continue;
      if (is_there(keys[node])) continue;
      return std::string(apart) + "node " + std::to_string(node) + " gives no sign of life";
    }
    return {};
  }

  struct life {
    std::string beat;
    std::chrono::steady_clock::time_point since;
  };

  worker::store_client store_;
  const round_place& here_;
  const std::function<bool()>& goes_on_;
  std::string problem_;
  std::uint64_t beats_ = 0;
  std::chrono::steady_clock::time_point beat_again_;
  std::chrono::steady_clock::time_point look_again_;
  std::map<std::uint32_t, life> lives_;
};

// One node's way through the turns.
class talk {
 public:
  talk(round_table& table, const round_place& here, disagreement& why)
      : table_(table), here_(here), why_(why) {}

  std::optional<agreed> run(const node_word& own, const bring_part& bring) {
    // The heartbeat first: who has heard a word may look for it.
    if (!table_.goes_on() || !table_.say("word", to_text(own))) return leave(0);
    std::string verdict;
    const auto said = turn("word", 0, verdict);
    if (verdict != yes) return leave(0);
    agreed found;
    if (!read_words(said, found.words)) return std::nullopt;
    std::set<entry_key> excluded;
    for (std::uint32_t number = 1;; ++number) {
      found.choice = choose_common(found.words, excluded);
      if (found.choice.parts.empty()) return found;
      const bool has_it = bring(found, [this] { return table_.goes_on(); });
      if (!table_.goes_on()) return leave(number);
      const std::string what = "has-" + std::to_string(number);
      if (!table_.say(what, has_it ? yes : no)) return leave(number);
      turn(what, number, verdict);
      if (verdict == yes) return found;
      if (verdict != no) return leave(number);
      excluded.insert(found.choice.key);
    }
  }

 private:
  // What all have said; empty: that was decided before this node heard all of them.
  std::vector<std::string> turn(const std::string& what, std::uint32_t number,
                                std::string& verdict) {
    verdict.clear();
    auto heard = table_.hear(what, number);
    if (!heard) return {};
    verdict = std::move(heard->verdict);
    if (verdict.empty()) {
      const bool have_all =
          number == 0 || std::all_of(heard->all.begin(), heard->all.end(),
                                     [](const std::string& one) { return one == yes; });
      verdict = table_.decide(number, have_all ? yes : no);
    }
    for (const std::string_view why : {apart, silent}) {
      if (!verdict.starts_with(why)) continue;
      why_.problem = verdict.substr(why.size());
      why_.is_silence = why == silent;
    }
    return std::move(heard->all);
  }

  bool read_words(const std::vector<std::string>& said, std::vector<node_word>& words) {
    for (std::uint32_t node = 0; node < said.size(); ++node) {
      auto word = parse_word(said[node]);
      if (!word) {
        why_.problem = "node " + std::to_string(node) + " says of its vault what cannot be read";
        return false;
      }
      words.push_back(std::move(*word));
    }
    if (words.size() == here_.nodes) return true;
    why_.problem = table_.problem();
    return false;
  }

  // The others end their wait.
  std::optional<agreed> leave(std::uint32_t number) {
    if (!why_.problem.empty()) return std::nullopt;  // all know it
    why_.problem = table_.problem();
    table_.decide(number,
                  std::string(apart) + "node " + std::to_string(here_.group_rank) + " gave up",
                  leave_limit);
    return std::nullopt;
  }

  round_table& table_;
  const round_place& here_;
  disagreement& why_;
};

}  // namespace

std::optional<agreed> agree(const round_place& here, const node_word& own,
                            const std::function<bool()>& goes_on, const bring_part& bring,
                            disagreement& why) {
  auto store = worker::store_client::connect(here.store_address, here.store_port, connect_limit,
                                             why.problem, "vault");
  if (!store) return std::nullopt;
  round_table table(std::move(*store), here, goes_on);
  return talk(table, here, why).run(own, bring);
}

}  // namespace ddprun::launcher::vault
