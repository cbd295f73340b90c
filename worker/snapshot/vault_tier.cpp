#include "worker/snapshot/vault_tier.hpp"

#include "rendezvous/base/rank_text.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/handing_on.hpp"
#include "worker/snapshot/listing.hpp"
#include "worker/snapshot/names.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sys/stat.h>
#include <utility>

namespace ddprun::worker {
namespace {

using json = nlohmann::json;

constexpr std::string_view ranks_name = "ranks.json";
// What a rank has written, for the node's first rank, which makes the manifest of it.
constexpr std::string_view record_prefix = "record-";
constexpr std::size_t record_bytes_max = std::size_t{1} << 20;
constexpr std::size_t ranks_bytes_max = std::size_t{64} << 20;

std::string record_name(std::uint32_t local_rank) {
  return std::string(record_prefix) + std::to_string(local_rank);
}

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A full vault does not fail: the launcher frees the pages of a file as they are written, and marks
// it with the sticky bit (launcher/vault/memory_guard.hpp).
bool was_freed(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && (facts.st_mode & S_ISVTX) != 0;
}

failure too_large(const std::string& name) {
  return {system_error(ENOSPC), name + ": the vault has no room for it (--vault-size)"};
}

failure because(const std::string& what, const error_code& error) {
  return {error, what + ": " + error.message()};
}

std::uint64_t number_of(std::uint32_t holder, const byte_broadcast& broadcast, std::uint64_t own) {
  broadcast(holder, reinterpret_cast<char*>(&own), sizeof own);
  return own;
}

}  // namespace

std::string vault_of_node() {
  const char* const path = std::getenv("DDPRUN_VAULT");
  return path == nullptr ? "" : path;
}

vault_tier::vault_tier(const environment& here, vault_options options)
    : here_(here), options_(std::move(options)) {
  if (options_.vault.empty()) return;
  folder_ = options_.vault + "/snapshots-" + checksum_text(checksum_of(options_.folder));
}

std::string vault_tier::path(snapshot_order order) const {
  return folder_ + "/" + snapshot_name(order);
}

std::optional<ranks_of_node> vault_tier::ranks_of(snapshot_order order) const {
  const auto text =
      options_.files->read(path(order) + "/" + std::string(ranks_name), ranks_bytes_max);
  const json found = json::parse(text ? *text : "", nullptr, false);
  try {
    ranks_of_node made;
    found.at("first").get_to(made.first);
    found.at("count").get_to(made.count);
    found.at("world_size").get_to(made.world_size);
    found.at("rank_0s").get_to(made.rank_0s);
    made.needs_rank_0s = found.value("needs_rank_0s", false);
    return made;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::optional<vault_tier::holding> vault_tier::look_at(snapshot_order order) const {
  const auto names = list_names(*options_.files, path(order));
  if (!names || !names->contains(manifest_name)) return std::nullopt;
  const auto text =
      options_.files->read(path(order) + "/" + std::string(manifest_name), manifest_bytes_max);
  const auto content = parse_manifest(text ? *text : "");
  const auto ranks = ranks_of(order);
  if (!content || !ranks || content->order() != order || content->files.size() != ranks->count) {
    return std::nullopt;
  }
  for (std::uint32_t rank = 0; rank < ranks->count; ++rank) {
    if (!names->contains(rank_file_name(rank))) return std::nullopt;
  }
  holding found;
  found.has_own = ranks->world_size == here_.world_size && ranks->count == here_.local_world_size &&
                  ranks->first + here_.local_rank == here_.rank;
  found.needs_own = content->has_pieces && ranks->count != ranks->world_size;
  found.has_rank_0s = ranks->first == 0;
  found.needs_rank_0s = !ranks->rank_0s.empty() || ranks->needs_rank_0s;
  return found;
}

std::string vault_tier::word_of_this_rank() {
  if (folder_.empty())
    return json_text({{"why", "no DDPRUN_VAULT (ddprun --vault DIR on each node)"}});
  bool made = false;
  error_code error = options_.files->make_folder(folder_, made);
  const auto names = error ? result<name_set>(error) : list_names(*options_.files, folder_);
  if (!names) return json_text({{"why", folder_ + ": " + names.error().message()}});
  std::uint64_t generation_max = 0;
  json held = json::array();
  for (const auto& name : *names) {
    const auto order = parse_snapshot_name(name);
    if (!order) continue;
    generation_max = std::max(generation_max, order->generation);
    if (const auto found = look_at(*order))
      held.push_back({order->generation, order->step, found->has_own, found->needs_own,
                      found->has_rank_0s, found->needs_rank_0s});
  }
  return json_text({{"held", std::move(held)}, {"generation", generation_max}});
}

// Why all cannot take it, though all have it; empty: they can. `needs` is what any rank needs.
std::string vault_tier::why_left_out(const held_snapshot& found, const holding& needs) const {
  if (!found.has_own && needs.needs_own) {
    return "each of several nodes has pieces of larger tensors there, and the ranks are others now";
  }
  // Without a broadcast each node has its own first rank's version.
  const bool is_on_one_node = here_.local_world_size == here_.world_size;
  const bool is_handed_out = options_.has_broadcast && !is_on_one_node;
  const bool has_rank_0s = found.has_rank_0s && (is_handed_out || *found.has_rank_0s == 0);
  if (!needs.needs_rank_0s || has_rank_0s) return "";
  if (!found.has_rank_0s) return "the tensors that only rank 0 saves are lost with its node";
  return "the tensors that only rank 0 saves are on the node of rank " +
         std::to_string(*found.has_rank_0s) + " now, and there is no broadcast to hand them out";
}

// Rank 0: a snapshot counts if each rank has it, and with its own state if each has that.
void vault_tier::combine(const std::vector<std::string>& words) {
  std::vector<std::uint32_t> without;
  std::string why;
  std::map<snapshot_order, std::size_t> count;
  std::map<snapshot_order, holding> needs;
  for (std::uint32_t rank = 0; rank < words.size(); ++rank) {
    try {
      const json word = json::parse(words[rank]);
      if (word.contains("why")) {
        without.push_back(rank);
        if (why.empty()) why = word["why"].get<std::string>();
        continue;
      }
      generation_max_ = std::max(generation_max_, word.at("generation").get<std::uint64_t>());
      for (const auto& each : word.at("held")) {
        const snapshot_order order{each.at(0).get<std::uint64_t>(),
                                   each.at(1).get<std::uint64_t>()};
        ++count[order];
        auto& found = held_[order];
        found.has_own = found.has_own && each.at(2).get<bool>();
        if (each.at(4).get<bool>() && !found.has_rank_0s) found.has_rank_0s = rank;
        auto& wanted = needs[order];
        wanted.needs_own = wanted.needs_own || each.at(3).get<bool>();
        wanted.needs_rank_0s = wanted.needs_rank_0s || each.at(5).get<bool>();
      }
    } catch (const json::exception&) {
      without.push_back(rank);
      if (why.empty()) why = "the job store has garbled what it says";
    }
  }
  if (!without.empty()) why_not_ = text_of_ranks(without) + ": " + why;
  std::erase_if(held_, [&](const auto& each) {
    const auto& [order, found] = each;
    if (!why_not_.empty() || count[order] != words.size()) return true;
    std::string reason = why_left_out(found, needs[order]);
    if (reason.empty()) return false;
    left_out_ = {order, std::move(reason)};  // they come in ascending order
    return true;
  });
}

std::string vault_tier::word_of_all() const {
  json held = json::array();
  for (const auto& [order, found] : held_) {
    json each{order.generation, order.step, found.has_own};
    if (found.has_rank_0s) each.push_back(*found.has_rank_0s);
    held.push_back(std::move(each));
  }
  return json_text({{"why", why_not_}, {"held", std::move(held)}, {"generation", generation_max_}});
}

std::optional<failure> vault_tier::hear(const std::string& word) {
  try {
    const json said = json::parse(word);
    said.at("why").get_to(why_not_);
    said.at("generation").get_to(generation_max_);
    held_.clear();
    for (const auto& each : said.at("held")) {
      auto& found = held_[{each.at(0).get<std::uint64_t>(), each.at(1).get<std::uint64_t>()}];
      each.at(2).get_to(found.has_own);
      if (each.size() > 3) found.has_rank_0s = each.at(3).get<std::uint32_t>();
    }
    return std::nullopt;
  } catch (const json::exception&) {
    return failure{errc::malformed_message, "the job store has '" + word.substr(0, 80) +
                                                "' where rank 0's word about the vault should be"};
  }
}

std::optional<failure> vault_tier::meet(rank_exchange& ranks) {
  const std::string topic = "vault";
  const auto lost = [&](const error_code& error) {
    return failure{error, "not all ranks have said what their vaults hold: " + ranks.problem(),
                   true};
  };
  if (auto error = ranks.report(topic, word_of_this_rank())) return lost(error);
  if (here_.rank == 0) {
    const auto words = ranks.reports(topic);
    if (!words) return lost(words.error());
    combine(*words);
    if (auto error = ranks.announce(topic, word_of_all())) return lost(error);
  } else {
    const auto word = ranks.announcement(topic);
    if (!word) return lost(word.error());
    if (auto wrong = hear(*word)) return wrong;
  }
  is_met_ = true;
  for (const auto& [order, found] : held_)
    whole_.insert(order);
  if (!is_used() || !is_first()) return std::nullopt;
  remove_unfinished();
  return std::nullopt;
}

// The launcher has ended the workers that have left it.
void vault_tier::remove_unfinished() {
  const auto names = list_names(*options_.files, folder_);
  for (const auto& name : names ? *names : name_set()) {
    const auto order = parse_snapshot_name(name);
    if (!order) continue;
    const auto inside = list_names(*options_.files, path(*order));
    // Of one that not every node has the launcher renames the manifest, if it has no other copy.
    const auto is_manifest = [](const std::string& each) {
      return each.starts_with(manifest_name) && !each.ends_with(temporary_suffix);
    };
    if (inside && std::none_of(inside->begin(), inside->end(), is_manifest)) remove(*order);
  }
}

// Without a note it is the newest one that the launcher would count a failure against.
void vault_tier::note_resumed(const std::optional<snapshot_order>& from) {
  if (folder_.empty() || !is_first()) return;
  file_system& files = *options_.files;
  const std::string note = folder_ + "/" + std::string(resumed_from_name);
  const std::string temporary = note + std::string(temporary_suffix);
  (void)files.remove(temporary);
  if (write_whole(files, temporary, from ? snapshot_name(*from) + "\n" : "")) return;
  (void)files.remove(note);
  (void)files.rename_to_new(temporary, note);
}

void vault_tier::forget(snapshot_order order) {
  held_.erase(order);
  whole_.erase(order);
}

outcome_word vault_tier::write(const vault_write& what, const std::function<bool()>& is_cancelled) {
  file_system& files = *options_.files;
  const snapshot_order order{what.info.generation, what.info.step};
  const std::string place = path(order);
  bool made = false;
  if (auto error = files.make_folder(place, made)) return because("cannot make the folder", error);
  const auto names = list_names(files, place);
  if (!names) return because("cannot read the folder", names.error());
  if (names->contains(manifest_name)) return failure{errc::refused, "it is there already"};
  const std::string name = rank_file_name(here_.local_rank);
  const auto cannot_write = [&](const error_code& error) {
    const auto bytes = what.layout.header.bytes.size() + what.layout.header.data_bytes;
    return because("cannot write " + name + " (" + std::to_string(bytes) + " bytes)", error);
  };
  const auto record = write_rank_file(files, place + "/" + name, what.layout, is_cancelled);
  if (!record) return cannot_write(record.error());
  if (was_freed(place + "/" + name)) return too_large(name);
  const std::string noted = place + "/" + record_name(here_.local_rank);
  (void)files.remove(noted);
  const written_file word{*record, what.deal, what.layout.has_pieces};
  if (auto error = write_whole(files, noted, to_text(written_word(word))))
    return cannot_write(error);
  return std::nullopt;
}

// Of the node's files, which all its ranks have written.
std::optional<failure> vault_tier::write_manifest(const vault_write& what) {
  file_system& files = *options_.files;
  const std::string place = path({what.info.generation, what.info.step});
  manifest content{what.info, {}};
  content.replicated = what.replicated;
  for (std::uint32_t rank = 0; rank < here_.local_world_size; ++rank) {
    const std::string noted = place + "/" + record_name(rank);
    const auto text = files.read(noted, record_bytes_max);
    if (!text) return because(noted, text.error());
    const auto word = parse_written(*text);
    if (const auto* told = std::get_if<failure>(&word)) return *told;
    const auto& written = std::get<written_file>(word);
    if (written.deal != what.deal) {
      return failure{errc::invalid_argument,
                     "rank " + std::to_string(here_.rank + rank) +
                         " would have other ranks write what is replicated (writers must be the "
                         "same on all ranks)"};
    }
    content.files.push_back(written.record);
    content.has_pieces = content.has_pieces || written.has_pieces;
    if (auto error = files.remove(noted)) return because(noted, error);
  }
  const std::string ranks = place + "/" + std::string(ranks_name);
  (void)files.remove(ranks);
  const json about{{"first", here_.rank},
                   {"count", here_.local_world_size},
                   {"world_size", here_.world_size},
                   {"rank_0s", what.rank_0s},
                   {"needs_rank_0s", what.needs_rank_0s}};
  if (auto error = write_whole(files, ranks, json_text(about) + "\n")) return because(ranks, error);
  const std::string final_path = place + "/" + std::string(manifest_name);
  const std::string temporary = final_path + std::string(temporary_suffix);
  (void)files.remove(temporary);
  auto error = write_whole(files, temporary, to_text(content));
  if (!error) error = files.rename_to_new(temporary, final_path);
  if (error) return because(final_path, error);
  return std::nullopt;
}

outcome_word vault_tier::complete(const vault_write& what) {
  if (!is_first()) return std::nullopt;
  if (auto wrong = write_manifest(what)) return wrong;
  // Nothing of what is complete is freed: what is whole now stays so.
  const std::string place = path({what.info.generation, what.info.step});
  const auto names = list_names(*options_.files, place);
  if (!names) return because(place, names.error());
  for (const auto& name : *names) {
    if (was_freed(place + "/" + name)) return too_large(name);
  }
  return std::nullopt;
}

void vault_tier::keep(snapshot_order order) {
  whole_.insert(order);
  while (whole_.size() > options_.keep)
    whole_.erase(whole_.begin());
  if (!is_first()) return;
  const auto names = list_names(*options_.files, folder_);
  if (!names) return;
  for (const auto& name : *names) {
    const auto other = parse_snapshot_name(name);
    if (other && *other < *whole_.begin()) remove(*other);
  }
}

void vault_tier::take_back(snapshot_order order) {
  if (is_first()) remove(order);
}

// Without its manifest it is none: that goes first.
void vault_tier::remove(snapshot_order order) {
  file_system& files = *options_.files;
  const std::string place = path(order);
  (void)files.remove(place + "/" + std::string(manifest_name));
  const auto names = files.list(place);
  if (!names) return;
  for (const auto& name : *names)
    (void)files.remove(place + "/" + name);
  (void)files.remove_folder(place);
}

void take_what_rank_0_saved(resumed_snapshot& found, const ranks_of_node& saved,
                            const byte_broadcast& broadcast, std::uint32_t holder,
                            std::uint32_t rank) {
  const bool has_it = rank == holder;
  auto& [values, tensors] = found.replicated;
  std::set<std::string, std::less<>> replaced(saved.rank_0s.begin(), saved.rank_0s.end());
  json described = json::array();
  for (const auto& tensor : tensors) {
    if (has_it && replaced.contains(tensor.name))
      described.push_back({tensor.name, to_text(tensor.type), tensor.shape});
  }
  std::string text = json_text({{"values", values}, {"tensors", std::move(described)}});
  text.resize(number_of(holder, broadcast, text.size()));
  hand_on(broadcast, holder, {}, text.data(), text.size());
  const json of_rank_0 = json::parse(text);
  of_rank_0.at("values").get_to(values);
  std::vector<tensor_view> taken;
  for (const auto& each : of_rank_0.at("tensors")) {
    tensor_view tensor;
    each.at(0).get_to(tensor.name);
    tensor.type = parse_element_type(each.at(1).get<std::string>()).value();
    each.at(2).get_to(tensor.shape);
    auto memory = std::make_shared<file_in_memory>();
    memory->content.resize(bytes_of(tensor).value());
    if (has_it) memory->content = found.replicated.find(tensor.name)->bytes;
    hand_on(broadcast, holder, {}, memory->content.data(), memory->content.size());
    if (has_it) continue;  // in its file
    tensor.bytes = memory->content;
    found.bytes.push_back(std::move(memory));
    replaced.insert(tensor.name);
    taken.push_back(std::move(tensor));
  }
  if (has_it) return;
  // What is here and not on rank 0 goes, too: the folder's snapshot would not have it.
  std::erase_if(tensors, [&](const tensor_view& each) { return replaced.contains(each.name); });
  tensors.insert(tensors.end(), taken.begin(), taken.end());
}

}  // namespace ddprun::worker
