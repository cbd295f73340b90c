#include "launcher/vault/agreement.hpp"

#include "rendezvous/core/messages/versions.hpp"
#include "worker/store_client.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_limit = 10s;
constexpr auto ask_limit = 10s;
constexpr std::size_t named_max = 4;  // late nodes in a message
constexpr auto leave_limit = 1s;      // the round may be over, and its store closed

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

  // False: the store has not accepted it.
  bool say_word(std::string_view text) {
    return is_done(store_.set(word_key(here_.group_rank), text, ask_limit));
  }

  // Call it when all words are there. Empty: the store does not answer.
  std::vector<std::string> words() {
    std::vector<std::string> keys;
    for (std::uint32_t node = 0; node < here_.nodes; ++node)
      keys.push_back(word_key(node));
    auto found = store_.multi_get(keys, ask_limit);
    if (!found && !is_done(found.error())) return {};
    return std::move(*found);
  }

  // Counts this node as arrived. True: it is the last of `all`; none: the store does not answer.
  std::optional<bool> come(std::uint32_t turn, std::uint32_t all) {
    const auto arrived = store_.add("arrived-" + std::to_string(turn), 1, ask_limit);
    if (!arrived && !is_done(arrived.error())) return std::nullopt;
    return *arrived == all;
  }

  // Waits for the verdict of a turn, which the last node to arrive gives. Returns it, whichever
  // node wrote it; empty: the round is over for this node, or the store does not answer.
  std::string arrive(std::uint32_t turn, std::uint32_t all) {
    const auto is_last = come(turn, all);
    if (!is_last) return {};
    if (*is_last) return decide(turn, yes);
    const worker::deadline words_until = here_.word_limit;
    while (true) {
      // The wait is cut into pieces of one heartbeat, in which goes_on() looks at the others.
      const duration longest = turn == 0
                                   ? std::min<duration>(here_.beat_interval, words_until.left())
                                   : here_.beat_interval;
      const error_code error = store_.wait(verdict_key(turn), longest);
      if (!error) break;
      if (error != errc::timed_out && !is_done(error)) return {};
      if (!goes_on()) return lost_.empty() ? std::string() : decide(turn, lost_);
      // Only words have a limit: later turns take as long as their copies, watched by heartbeats.
      if (turn == 0 && words_until.passed())
        return decide(turn, std::string(silent) + who_is_late());
    }
    auto verdict = store_.get(verdict_key(turn), ask_limit);
    if (!verdict && !is_done(verdict.error())) return {};
    return std::move(*verdict);
  }

  // The first proposal becomes the verdict. Returns the verdict; empty: the store does not answer.
  std::string decide(std::uint32_t turn, std::string_view proposed,
                     const worker::deadline& until = ask_limit) {
    auto found = store_.compare_set(verdict_key(turn), "", proposed, until);
    if (!found && !is_done(found.error())) return {};
    return std::move(*found);
  }

  // Sends a heartbeat, and checks the next node's, once per interval.
  bool goes_on() {
    if (!goes_on_()) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now < beat_again_) return lost_.empty();
    beat_again_ = now + here_.beat_interval;
    const auto beats = store_.add(alive_key(here_.group_rank), 1, ask_limit);
    if (!beats && !is_done(beats.error())) return false;
    look_at_watched();
    return lost_.empty();
  }

  // Watches that node's heartbeat. Until all words are there it may not have started.
  void watch(std::uint32_t node) { watched_ = node; }

  // "apart WHY" if the watched node has stopped sending heartbeats.
  const std::string& lost() const { return lost_; }
  const std::string& problem() const { return problem_; }

 private:
  static std::string word_key(std::uint32_t node) { return "word/" + std::to_string(node); }
  static std::string alive_key(std::uint32_t node) { return "alive/" + std::to_string(node); }
  static std::string verdict_key(std::uint32_t turn) { return "verdict-" + std::to_string(turn); }
  bool is_done(const error_code& error) {
    if (error) problem_ = store_.problem();
    return !error;
  }
  std::string who_is_late() {
    std::set<std::string> there;
    if (const auto keys = store_.list_keys(ask_limit)) there.insert(keys->begin(), keys->end());
    std::string nodes;
    std::size_t count = 0;
    for (std::uint32_t node = 0; node < here_.nodes && count < named_max; ++node) {
      if (there.contains(word_key(node))) continue;
      nodes += (nodes.empty() ? "" : ", ") + std::to_string(node);
      ++count;
    }
    return "node " + nodes +
           " does not say what its vault holds (is its disk slow, or its ddprun " + "older?)";
  }
  // Each node watches one other, so of two neighbours that fail one is noticed. Only changes of the
  // counter, timed by our own clock, are compared.
  void look_at_watched() {
    if (watched_ == here_.group_rank) return;
    const auto beats = store_.add(alive_key(watched_), 0, ask_limit);
    if (!beats) return;
    const auto now = std::chrono::steady_clock::now();
    if (beats_ != *beats) {
      beats_ = *beats;
      beaten_at_ = now;
    } else if (now - beaten_at_ >= here_.silence_limit) {
      lost_ = std::string(apart) + "node " + std::to_string(watched_) + " gives no sign of life";
    }
  }

  worker::store_client store_;
  const round_place& here_;
  const std::function<bool()>& goes_on_;
  std::string problem_;
  std::string lost_;
  std::uint32_t watched_ = here_.group_rank;  // our own: none is watched
  std::chrono::steady_clock::time_point beat_again_;
  std::int64_t beats_ = -1;  // of the watched node
  std::chrono::steady_clock::time_point beaten_at_;
};

// Takes one node through the turns.
class talk {
 public:
  talk(round_table& table, const round_place& here, disagreement& why)
      : table_(table), here_(here), why_(why) {}

  std::optional<agreed> run(const node_word& own, const bring_part& bring) {
    if (!table_.goes_on() || !table_.say_word(to_text(own))) return leave(0);
    if (arrive(0, here_.nodes) != yes) return leave(0);
    agreed found;
    if (!read_words(table_.words(), found.words)) return leave(1);
    const auto with_vault = static_cast<std::uint32_t>(
        std::count_if(found.words.begin(), found.words.end(),
                      [](const node_word& word) { return word.has_vault; }));
    table_.watch(next_with_vault(found.words, here_.group_rank));
    std::set<entry_key> excluded;
    for (std::uint32_t number = 1;; ++number) {
      found.choice = choose_common(found.words, excluded);
      if (found.choice.parts.empty()) return found;
      const bool has_it = bring(found, [this] { return table_.goes_on(); });
      if (!table_.goes_on()) return leave(number);
      // One node without its part is enough to reject the entry.
      const std::string verdict = has_it ? arrive(number, with_vault) : decide(number, no);
      if (verdict == yes) return found;
      if (verdict != no) return leave(number);
      excluded.insert(found.choice.key);
    }
  }

 private:
  std::string arrive(std::uint32_t number, std::uint32_t all) {
    return heard(table_.arrive(number, all));
  }
  std::string decide(std::uint32_t number, std::string_view proposed) {
    return heard(table_.decide(number, proposed));
  }
  std::string heard(std::string verdict) {
    for (const std::string_view why : {apart, silent}) {
      if (!verdict.starts_with(why)) continue;
      why_.problem = verdict.substr(why.size());
      why_.is_silence = why == silent;
    }
    return verdict;
  }

  bool read_words(const std::vector<std::string>& said, std::vector<node_word>& words) {
    for (std::uint32_t node = 0; node < said.size(); ++node) {
      auto word = parse_word(said[node]);
      if (!word) {
        unread_ = "cannot read what node " + std::to_string(node) +
                  " says of its vault: " + std::string(core::same_version_advice);
        return false;
      }
      words.push_back(std::move(*word));
    }
    return words.size() == here_.nodes;
  }

  // Gives a verdict, so that the other nodes stop waiting.
  std::optional<agreed> leave(std::uint32_t number) {
    if (!why_.problem.empty()) return std::nullopt;  // the verdict says it already
    why_.problem = table_.problem();
    std::string proposed = table_.lost();
    if (!unread_.empty()) proposed = std::string(apart) + unread_;
    const bool is_known_why = !proposed.empty();
    if (!is_known_why)
      proposed = std::string(apart) + "node " + std::to_string(here_.group_rank) + " gave up";
    const std::string verdict = table_.decide(number, proposed, leave_limit);
    if (is_known_why) heard(verdict);
    return std::nullopt;
  }

  round_table& table_;
  const round_place& here_;
  disagreement& why_;
  std::string unread_;  // why a node's word cannot be read
};

std::optional<round_table> open_table(const round_place& here, const std::function<bool()>& goes_on,
                                      std::string& problem) {
  auto store = worker::store_client::connect(here.store_address, here.store_port, connect_limit,
                                             problem, "vault");
  if (!store) return std::nullopt;
  return round_table(std::move(*store), here, goes_on);
}

}  // namespace

std::optional<agreed> agree(const round_place& here, const node_word& own,
                            const std::function<bool()>& goes_on, const bring_part& bring,
                            disagreement& why) {
  auto table = open_table(here, goes_on, why.problem);
  if (!table) return std::nullopt;
  return talk(*table, here, why).run(own, bring);
}

bool say_without_vault(const round_place& here) {
  node_word without;
  without.has_vault = false;
  std::string problem;
  const std::function<bool()> always = [] { return true; };
  auto table = open_table(here, always, problem);
  if (!table || !table->say_word(to_text(without))) return false;
  const auto is_last = table->come(0, here.nodes);
  return is_last && (!*is_last || !table->decide(0, yes).empty());
}

}  // namespace ddprun::launcher::vault
