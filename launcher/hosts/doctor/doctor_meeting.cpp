#include "launcher/hosts/doctor/doctor_meeting.hpp"

#include "launcher/base/text.hpp"
#include "launcher/hosts/doctor/cluster_json.hpp"
#include "rendezvous/base/counted.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace ddprun::launcher::doctor {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using worker::store_client;

constexpr auto pause_between_looks = 50ms;
constexpr auto pause_between_beats = 250ms;
// Every path accepts packets of this size (RFC 879), so what nodes report about a path that drops
// large packets still arrives.
constexpr int segment_bytes_max = 536;
// For one request to the store, which answers at once if it is there.
constexpr auto store_patience = 20s;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines, std::size_t most) {
  std::string text;
  for (std::size_t at = 0; at < std::min(most, lines.size()); ++at)
    text += lines[at] + "\n";
  return text;
}

std::vector<std::string> keys_of(const std::string& kind, const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names)
    keys.push_back(kind + "/" + name);
  return keys;
}

template <typename T>
error_code error_of(const result<T>& answer) {
  return answer ? error_code() : answer.error();
}

std::uint64_t count_said(const std::string& generation) {
  return whole_number<std::uint64_t>(generation).value_or(0);
}

std::string foreign_problem(const node_card& card) {
  return card.name +
         " runs another version of ddprun, which this one does not understand: install the same on "
         "all nodes";
}

// As it is typed.
std::string range_text(const cli::node_range& nodes) {
  const std::string max = std::to_string(nodes.max);
  return nodes.min == nodes.max ? max : std::to_string(nodes.min) + ":" + max;
}

// The token distinguishes nodes, so it is never empty.
node_card foreign_card(const std::string& token, const std::string& text) {
  node_card card;
  card.token = token;
  card.name = name_on_card(text);
  if (card.name.empty()) card.name = "a node";
  return card;
}

}  // namespace

bool meeting::is_lost(const error_code& error) {
  if (!error) return false;
  if (!problem_.empty()) return true;
  problem_ = all_->problem();
  return true;
}

bool meeting::connect(std::string& problem) {
  auto made = store_client::connect(options_.endpoint.host, options_.endpoint.port, options_.wait,
                                    problem, "", segment_bytes_max);
  if (!made) return false;
  all_ = made->with_prefix("ddprun-doctor/" + options_.run_id);
  return true;
}

// The card and the first beat are stored before the token, so readers of the token find both.
bool meeting::enter(const node_card& mine) {
  stop_beating();
  members_.clear();
  met_.clear();
  foreign_.clear();
  pulses_.clear();
  const auto generation = all_->compare_set("generation", "", "1", store_patience);
  if (is_lost(error_of(generation))) return false;
  generation_ = *generation;
  store_ = all_->with_prefix(generation_);
  // Nodes that were killed have left their keys. The generation just before this one is spared,
  // because some of its nodes may still be leaving.
  const std::uint64_t number = count_said(generation_);
  if (number > 2) forget(all_->with_prefix(std::to_string(number - 2)));
  if (is_lost(store_->set("beat/" + token_, "0", store_patience))) return false;
  start_beating();
  return !is_lost(store_->set("card/" + token_, encode(mine), store_patience)) &&
         !is_lost(store_->append("members", token_ + "\n", store_patience));
}

bool meeting::read_new_members() {
  const auto text = store_->get("members", store_patience);
  if (is_lost(error_of(text))) return false;
  members_ = lines_of(*text);
  std::vector<std::string> unknown;
  for (const std::string& token : members_) {
    if (!met_.contains(token)) unknown.push_back(token);
  }
  if (unknown.empty()) return true;
  const auto cards = store_->multi_get(keys_of("card", unknown), store_patience);
  if (is_lost(error_of(cards))) return false;
  for (std::size_t at = 0; at < unknown.size(); ++at) {
    const std::string& token = unknown[at];
    auto card = decode_card((*cards)[at]);
    if (!card) foreign_.insert(token);
    met_[token] = card ? std::move(*card) : foreign_card(token, (*cards)[at]);
  }
  return true;
}

// Finds among these nodes one of another version.
const node_card* meeting::find_foreign(const std::vector<std::string>& tokens) const {
  for (const std::string& token : tokens) {
    if (foreign_.contains(token)) return &met_.at(token);
  }
  return nullptr;
}

void meeting::feel_pulses(const std::vector<std::string>& tokens) {
  if (tokens.empty()) return;
  const auto beats = store_->multi_get(keys_of("beat", tokens), store_patience);
  if (is_lost(error_of(beats))) return;
  const time_point now = steady_clock::now();
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const auto [known, is_new] = pulses_.try_emplace(tokens[at], pulse{(*beats)[at], now});
    if (is_new || known->second.beat == (*beats)[at]) continue;
    known->second = {(*beats)[at], now, true};
  }
}

bool meeting::is_silent(const std::string& token) const {
  const auto known = pulses_.find(token);
  return token != token_ && known != pulses_.end() &&
         steady_clock::now() - known->second.since > options_.silence_max;
}

void meeting::forget(worker::store_client keys) {
  if (!problem_.empty()) return;
  const auto names = keys.list_keys(store_patience);
  if (is_lost(error_of(names))) return;
  for (const std::string& name : *names) {
    if (is_lost(error_of(keys.delete_key(name, store_patience)))) return;
  }
}

void meeting::end_generation() {
  if (problem_.empty())
    all_->compare_set("generation", generation_, std::to_string(count_said(generation_) + 1),
                      store_patience);
}

meeting::gathering meeting::take_roster(std::string& problem) {
  const auto text = store_->get("roster", store_patience);
  if (is_lost(error_of(text))) return gathering::failed;
  const std::vector<std::string> tokens = lines_of(*text);
  if (!read_new_members()) return gathering::failed;
  const auto own = std::find(tokens.begin(), tokens.end(), token_);
  if (own != tokens.end()) {
    if (const node_card* foreign = find_foreign(tokens)) {
      problem = foreign_problem(*foreign);
      return gathering::failed;
    }
    cards_.clear();
    for (const std::string& token : tokens)
      cards_.push_back(met_[token]);
    own_ = static_cast<std::uint32_t>(own - tokens.begin());
    return gathering::settled;
  }
  // The nodes of a killed meeting stay on its roster for ever.
  feel_pulses(tokens);
  for (const std::string& token : tokens) {
    if (!pulses_[token].has_changed) continue;
    problem = counted(tokens.size(), "node") + " (" + met_[token].name +
              " among them) already examine each other under this --rdzv-id, without this one: "
              "wait until "
              "they are done, and start all at once, with the same --nnodes";
    return gathering::failed;
  }
  const bool are_silent = std::all_of(tokens.begin(), tokens.end(),
                                      [&](const auto& token) { return is_silent(token); });
  if (!are_silent) return gathering::goes_on;
  end_generation();
  return gathering::next_generation;
}

meeting::gathering meeting::look_round(const node_card& mine, time_point until,
                                       std::string& problem) {
  const auto generation = all_->get("generation", store_patience);
  if (is_lost(error_of(generation))) return gathering::failed;
  if (*generation != generation_) return gathering::next_generation;
  const std::vector<std::string> roster = {"roster"};
  const auto is_settled = store_->check(roster, store_patience);
  if (is_lost(error_of(is_settled))) return gathering::failed;
  if (*is_settled) return take_roster(problem);
  if (!read_new_members()) return gathering::failed;
  feel_pulses(members_);
  std::vector<std::string> there;
  for (const std::string& token : members_) {
    if (is_silent(token)) {
      end_generation();
      return gathering::next_generation;
    }
    if (token != token_ && !pulses_[token].has_changed) continue;
    there.push_back(token);
    const node_card& card = met_[token];
    const std::string theirs = range_text(card.nodes);
    if (theirs == range_text(mine.nodes) || foreign_.contains(token)) continue;
    problem = card.name + " says --nnodes " + theirs + ", and this node " + range_text(mine.nodes) +
              ": write the same on all";
    return gathering::failed;
  }
  if (const node_card* foreign = find_foreign(there)) {
    problem = foreign_problem(*foreign);
    return gathering::failed;
  }
  const bool is_time_over = steady_clock::now() >= until;
  if (there.size() < options_.nodes.max && !is_time_over) return gathering::goes_on;
  store_->compare_set("roster", "", joined(there, options_.nodes.max), store_patience);
  return gathering::goes_on;
}

bool meeting::join(const node_card& mine, std::string& problem) {
  token_ = mine.token;
  const time_point until = steady_clock::now() + options_.wait;
  if (!connect(problem)) return false;
  gathering now = gathering::next_generation;
  while (now == gathering::goes_on || now == gathering::next_generation) {
    if (now == gathering::next_generation && !enter(mine)) break;
    now = look_round(mine, until, problem);
    if (now == gathering::goes_on) std::this_thread::sleep_for(pause_between_looks);
  }
  if (problem.empty()) problem = problem_;
  return now == gathering::settled;
}

// Returns true while a node is missing.
bool meeting::find_who_left(std::set<std::uint32_t>& missing, const std::string& phase) {
  const auto done = store_->get("done/" + phase, store_patience);
  if (is_lost(error_of(done))) return false;
  for (const std::string& line : lines_of(*done)) {
    if (const auto index = whole_number<std::uint32_t>(line)) missing.erase(*index);
  }
  std::vector<std::string> tokens;
  for (const std::uint32_t index : missing)
    tokens.push_back(cards_[index].token);
  feel_pulses(tokens);
  for (auto each = missing.begin(); each != missing.end();) {
    if (!is_silent(cards_[*each].token)) {
      ++each;
      continue;
    }
    gone_[*each] = "has said nothing for " + ddprun::to_text(options_.silence_max);
    each = missing.erase(each);
  }
  return problem_.empty() && !missing.empty();
}

std::set<std::uint32_t> meeting::wait_for_others(const std::string& phase, duration limit) {
  if (!problem_.empty() ||
      is_lost(store_->append("done/" + phase, std::to_string(own_) + "\n", store_patience)))
    return {};
  std::set<std::uint32_t> missing;
  for (std::uint32_t index = 0; index < cards_.size(); ++index) {
    if (index != own_ && !gone_.contains(index)) missing.insert(index);
  }
  std::set<std::uint32_t> here = missing;
  // Silence counts from now: nobody listened to the beats before.
  pulses_.clear();
  const time_point until = steady_clock::now() + limit;
  while (find_who_left(missing, phase) && steady_clock::now() < until)
    std::this_thread::sleep_for(pause_between_looks);
  for (const std::uint32_t index : missing) {
    if (problem_.empty())
      gone_[index] = "is there, but has not finished this after " + ddprun::to_text(limit);
  }
  for (const auto& [index, why] : gone_)
    here.erase(index);
  return here;
}

std::vector<std::optional<std::string>> meeting::exchange(const std::string& phase,
                                                          const std::string& word, duration limit) {
  std::vector<std::optional<std::string>> words(cards_.size());
  words[own_] = word;
  words_.push_back("word/" + phase + "/" + std::to_string(own_));
  if (!problem_.empty() || is_lost(store_->set(words_.back(), word, store_patience))) return words;
  const std::set<std::uint32_t> others = wait_for_others(phase, limit);
  std::vector<std::string> keys;
  for (const std::uint32_t index : others)
    keys.push_back("word/" + phase + "/" + std::to_string(index));
  if (keys.empty() || !problem_.empty()) return words;
  const auto found = store_->multi_get(keys, store_patience);
  if (is_lost(error_of(found))) return words;
  auto each = found->begin();
  for (const std::uint32_t index : others)
    words[index] = *each++;
  return words;
}

void meeting::leave() {
  wait_for_others("leave", options_.silence_max);
  // All have read these keys. They are the largest, so they are deleted even if a node never comes
  // to leave.
  for (const std::string& key : words_) {
    if (problem_.empty()) is_lost(error_of(store_->delete_key(key, store_patience)));
  }
  end_generation();
  stop_beating();
  if (!problem_.empty()) return;
  // Others may still read the beats and would wait for missing keys, so only the last node deletes
  // them. If a node has gone there is no last one, and a later meeting cleans up.
  const auto left = store_->add("left", 1, store_patience);
  if (is_lost(error_of(left))) return;
  if (*left == static_cast<std::int64_t>(cards_.size())) forget(*store_);
}

// Looks at the nodes on the roster, or at all members if there is no roster.
bool meeting::is_anybody_left() {
  const auto generation = all_->get("generation", store_patience);
  if (is_lost(error_of(generation)) || *generation != generation_) return false;
  const std::vector<std::string> roster = {"roster"};
  const auto is_settled = store_->check(roster, store_patience);
  if (is_lost(error_of(is_settled))) return false;
  const auto text = store_->get(*is_settled ? "roster" : "members", store_patience);
  if (is_lost(error_of(text))) return false;
  std::vector<std::string> others = lines_of(*text);
  std::erase(others, token_);
  feel_pulses(others);
  return problem_.empty() && std::any_of(others.begin(), others.end(),
                                         [&](const auto& token) { return !is_silent(token); });
}

void meeting::outlast_others() {
  while (store_ && is_anybody_left())
    std::this_thread::sleep_for(pause_between_looks);
}

void meeting::start_beating() {
  is_over_ = false;
  const std::string prefix = "ddprun-doctor/" + options_.run_id + "/" + generation_;
  beats_ = std::thread([this, prefix] {
    std::string problem;
    auto store = store_client::connect(options_.endpoint.host, options_.endpoint.port,
                                       store_patience, problem, "", segment_bytes_max);
    for (std::uint64_t beat = 1; store && !is_over_; ++beat) {
      if (store->with_prefix(prefix).set("beat/" + token_, std::to_string(beat), store_patience))
        return;
      std::this_thread::sleep_for(pause_between_beats);
    }
  });
}

void meeting::stop_beating() {
  is_over_ = true;
  if (beats_.joinable()) beats_.join();
}

}  // namespace ddprun::launcher::doctor
