#include "worker/nccl_ids.hpp"

#include "worker/nccl_version.hpp"
#include "worker/store_client.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

namespace ddprun::worker {
namespace {

constexpr const char* ids_variable = "DDPRUN_NCCL_IDS";
constexpr const char* version_variable = "DDPRUN_NCCL_VERSION";
constexpr std::string_view in_store = "store:";

nccl_id read_id(std::string_view text) {
  if (const auto id = nccl_id_from(text)) return *id;
  throw environment_error(std::string(ids_variable) + ": '" + std::string(text.substr(0, 40)) +
                          "' is not an NCCL id (2 to 256 hexadecimal digits); the launcher sets "
                          "it: do not change it");
}

std::vector<nccl_id> read_list(std::string_view text) {
  std::vector<nccl_id> ids;
  while (true) {
    const std::size_t comma = text.find(',');
    ids.push_back(read_id(text.substr(0, comma)));
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

std::string fetch(const environment& here, const deadline& until, std::string_view key) {
  std::string problem;
  auto store = store_client::from_environment(here, until, problem);
  if (!store) throw environment_error("the NCCL ids are in the job store: " + problem);
  const auto list = store->get(key, until);
  if (!list) throw environment_error("the NCCL ids are in the job store: " + store->problem());
  return *list;
}

void check_version(std::uint32_t here, const std::optional<std::string>& told) {
  const auto made_by =
      static_cast<std::uint32_t>(told ? std::strtoul(told->c_str(), nullptr, 10) : 0);
  if (here == 0 || made_by == 0 || here == made_by) return;
  throw environment_error("NCCL " + nccl_version_text(here) + " is loaded here, and NCCL " +
                          nccl_version_text(made_by) +
                          " has made this round's ids, on the node that leads it: give all nodes "
                          "the same (DDPRUN_NCCL_LIBRARY names the one that makes them)");
}

}  // namespace

std::vector<nccl_id> read_nccl_ids(const environment& here, const deadline& until,
                                   std::uint32_t version, const variable_lookup& lookup) {
  const std::optional<std::string> text = lookup(ids_variable);
  if (!text || text->empty()) {
    throw environment_error(std::string(ids_variable) +
                            " is not set: the launcher has made no NCCL ids; start it with "
                            "ddprun --nccl-ids=on");
  }
  check_version(version, lookup(version_variable));
  if (!text->starts_with(in_store)) return read_list(*text);
  return read_list(fetch(here, until, std::string_view(*text).substr(in_store.size())));
}

std::vector<nccl_id> read_nccl_ids(const environment& here, const deadline& until,
                                   std::uint32_t version) {
  return read_nccl_ids(here, until, version, [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace ddprun::worker
