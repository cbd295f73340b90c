#include "worker/snapshot/rank_messages.hpp"

#include "worker/run.hpp"

#include <nlohmann/json.hpp>

namespace ddprun::worker {
namespace {

using json = nlohmann::json;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json json_of(const failure& told) {
  const bool is_ours = told.code.category() == ddprun_category();
  return {{"failure", told.text},
          {"category", is_ours ? "ddprun" : "system"},
          {"value", told.code.value()},
          {"final", told.is_final},
          {"may_be_there", told.may_be_there}};
}

json json_of(const std::vector<snapshot_order>& orders) {
  auto list = json::array();
  for (const auto order : orders)
    list.push_back({order.generation, order.step});
  return list;
}

std::vector<snapshot_order> orders_in(const json& word, const char* name) {
  std::vector<snapshot_order> orders;
  for (const auto& each : word.value(name, json::array()))
    orders.push_back({each.at(0).get<std::uint64_t>(), each.at(1).get<std::uint64_t>()});
  return orders;
}

// It is then unknown whether the snapshot exists.
failure strange(std::string_view text) {
  return {errc::malformed_message,
          "the job store has '" + std::string(text.substr(0, 80)) +
              "' where a message about snapshots should be",
          false, true};
}

std::optional<failure> failure_in(const json& word) {
  if (!word.is_object() || !word.contains("failure")) return std::nullopt;
  const int value = word.value("value", 0);
  const bool is_ours = word.value("category", "") == "ddprun";
  error_code code = is_ours ? make_error_code(static_cast<errc>(value)) : system_error(value);
  if (value == 0) code = errc::malformed_message;  // a failure must not have the code of success
  return failure{code, word.value("failure", ""), word.value("final", false),
                 word.value("may_be_there", false)};
}

// Runs `read` on the parsed text; a text that does not fit becomes a failure.
template <typename Word, typename Read>
Word parse(std::string_view text, Read read) {
  const json word = json::parse(text, nullptr, false);
  try {
    if (auto told = failure_in(word)) return *std::move(told);
    return read(word);
  } catch (const json::exception&) {
    return strange(text);
  }
}

}  // namespace

failure has_thrown(const std::string& doing, const std::exception& error) {
  return {errc::invalid_argument, "cannot " + doing + ": " + one_line(error.what())};
}

std::string to_text(const written_word& word) {
  if (const auto* told = std::get_if<failure>(&word)) return dump(json_of(*told));
  const auto& [record, deal, has_pieces] = std::get<written_file>(word);
  return dump(
      {{"bytes", record.bytes}, {"xxh3", record.xxh3}, {"deal", deal}, {"pieces", has_pieces}});
}

written_word parse_written(std::string_view text) {
  return parse<written_word>(text, [](const json& word) -> written_word {
    return written_file{
        {word.at("bytes").get<std::uint64_t>(), word.at("xxh3").get<std::uint64_t>()},
        word.at("deal").get<std::uint64_t>(),
        word.at("pieces").get<bool>()};
  });
}

std::string to_text(const outcome_word& word) {
  return dump(word ? json_of(*word) : json::object());
}

outcome_word parse_outcome(std::string_view text) {
  return parse<outcome_word>(text, [&](const json& word) -> outcome_word {
    if (word.is_object()) return std::nullopt;
    return strange(text);
  });
}

std::string to_text(const reading_word& word) {
  json text = word.outcome ? json_of(*word.outcome) : json::object();
  if (!word.files.empty()) text["files"] = word.files;
  return dump(text);
}

reading_word parse_reading(std::string_view text) {
  reading_word word{parse_outcome(text), {}};
  const json all = json::parse(text, nullptr, false);
  if (!all.is_object() || !all.contains("files")) return word;
  try {
    word.files = all["files"].get<std::vector<std::uint32_t>>();
  } catch (const json::exception&) {
    word.outcome = strange(text);
  }
  return word;
}

std::string to_text(const in_vaults_word& word) {
  json text = word.outcome ? json_of(*word.outcome) : json::object();
  if (word.has_rank_0s) text["rank_0s"] = true;
  return dump(text);
}

in_vaults_word parse_in_vaults(std::string_view text) {
  in_vaults_word word{parse_outcome(text), false};
  if (word.outcome) return word;
  try {
    word.has_rank_0s = json::parse(text).value("rank_0s", false);
  } catch (const json::exception&) {
    word.outcome = strange(text);
  }
  return word;
}

std::string to_text(const committed_word& word) {
  json text = word.outcome ? json_of(*word.outcome) : json::object();
  if (!word.going.empty()) text["going"] = json_of(word.going);
  return dump(text);
}

committed_word parse_committed(std::string_view text) {
  committed_word word{parse_outcome(text), {}};
  if (word.outcome) return word;
  try {
    word.going = orders_in(json::parse(text), "going");
  } catch (const json::exception&) {
    word.outcome = strange(text);
  }
  return word;
}

std::string to_text(const choice_word& word) {
  if (const auto* told = std::get_if<failure>(&word)) return dump(json_of(*told));
  const auto& made = std::get<choice>(word);
  json text{{"generation", made.generation}};
  if (made.from) text["from"] = {made.from->generation, made.from->step};
  if (made.is_in_vault) text["in_vault"] = true;
  if (!made.going.empty()) text["going"] = json_of(made.going);
  return dump(text);
}

choice_word parse_choice(std::string_view text) {
  return parse<choice_word>(text, [](const json& word) -> choice_word {
    choice made;
    made.generation = word.at("generation").get<std::uint64_t>();
    if (word.contains("from")) {
      made.from = snapshot_order{word["from"].at(0).get<std::uint64_t>(),
                                 word["from"].at(1).get<std::uint64_t>()};
    }
    made.going = orders_in(word, "going");
    made.is_in_vault = word.value("in_vault", false);
    return made;
  });
}

std::optional<failure> worst_of(const std::vector<outcome_word>& by_rank) {
  std::optional<failure> worst;
  std::size_t count = 0;
  bool is_final = false;
  bool may_be_there = false;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!by_rank[rank]) continue;
    ++count;
    is_final = is_final || by_rank[rank]->is_final;
    may_be_there = may_be_there || by_rank[rank]->may_be_there;
    const bool is_worse =
        !worst || (worst->code == errc::damaged && by_rank[rank]->code != errc::damaged);
    if (is_worse) {
      worst =
          failure{by_rank[rank]->code, "rank " + std::to_string(rank) + ": " + by_rank[rank]->text};
    }
  }
  if (!worst) return std::nullopt;
  worst->is_final = is_final;
  worst->may_be_there = may_be_there;
  if (count > 1) worst->text += " (and " + std::to_string(count - 1) + " more ranks)";
  return worst;
}

}  // namespace ddprun::worker
