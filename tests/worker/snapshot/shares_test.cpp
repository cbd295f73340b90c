// Who writes which part of the replicated state, and that all of it is read back.
#include "worker/snapshot/shares.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

tensor_view bytes_of_length(std::string name, std::uint64_t length) {
  tensor_view tensor;
  tensor.name = std::move(name);
  tensor.shape = {length};
  return tensor;
}

snapshot_part part_of(const std::vector<std::uint64_t>& lengths) {
  snapshot_part part;
  part.values["step"] = "1";
  for (std::size_t at = 0; at < lengths.size(); ++at)
    part.tensors.push_back(bytes_of_length("t" + std::to_string(at), lengths[at]));
  return part;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder))
    names.insert(each.path().filename());
  return names;
}

}  // namespace

TEST_CASE("all ranks write that have enough, but on one node four at most", "[snapshot]") {
  CHECK(writers_for(2 * share_bytes_min - 1, 8, 1) == 1);
  CHECK(writers_for(2 * share_bytes_min, 8, 1) == 2);
  CHECK(writers_for(1000 * share_bytes_min, 8, 1) == 4);
  CHECK(writers_for(1000 * share_bytes_min, 2, 1) == 2);
  CHECK(writers_for(0, 8, 2) == 1);
  CHECK(writers_for(2 * share_bytes_min - 1, 8, 2) == 1);
  CHECK(writers_for(2 * share_bytes_min, 8, 2) == 2);
  CHECK(writers_for(~std::uint64_t{0}, 8, 2) == 8);
  CHECK(writers_for(~std::uint64_t{0}, 0, 2) == 1);
}

TEST_CASE("each tensor has one writer, and writers have about as many bytes each", "[snapshot]") {
  std::mt19937 random(7);
  for (const std::uint32_t world_size : {1u, 2u, 3u, 8u, 64u}) {
    for (const std::uint32_t writers : {0u, 1u, 2u, 3u, 8u, 100u}) {
      std::vector<std::uint64_t> lengths(random() % 200);
      for (auto& each : lengths)
        each = random() % 5 == 0 ? 0 : random() % (64 * mebibyte);
      const auto part = part_of(lengths);
      const auto dealt = deal_out(part, writers, world_size);
      INFO(lengths.size() << " tensors, " << writers << " writers of " << world_size);
      std::map<std::uint32_t, std::uint64_t> bytes;
      std::size_t count = 0;
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        const auto share = share_of(part, dealt, rank);
        CHECK(share.values.empty() == (rank != 0));
        count += share.tensors.size();
        const bool writes =
            std::find(dealt.ranks.begin(), dealt.ranks.end(), rank) != dealt.ranks.end();
        CHECK((rank == 0 || writes == !share.tensors.empty()));
        if (writes) bytes[rank] = share.bytes();
      }
      CHECK(count == lengths.size());
      CHECK(dealt.ranks.size() <= std::clamp(writers, 1u, world_size));
      CHECK(dealt.ranks.front() == 0);
      if (lengths.size() < 100) continue;  // with enough tensors all writers have some
      CHECK(dealt.ranks.size() == std::clamp(writers, 1u, world_size));
      const auto [least, most] = std::minmax_element(
          bytes.begin(), bytes.end(),
          [](const auto& one, const auto& other) { return one.second < other.second; });
      CHECK(most->second - least->second <= *std::max_element(lengths.begin(), lengths.end()));
    }
  }
}

TEST_CASE("writers are spread over the ranks, and so over the nodes", "[snapshot]") {
  const auto part = part_of({5, 5, 5, 5, 5, 5, 5, 5});
  CHECK(deal_out(part, 2, 8).ranks == std::vector<std::uint32_t>{0, 4});
  CHECK(deal_out(part, 3, 8).ranks == std::vector<std::uint32_t>{0, 2, 5});
  CHECK(deal_out(part, 1, 8).ranks == std::vector<std::uint32_t>{0});
}

TEST_CASE("what differs between the ranks is rank 0's to write", "[snapshot]") {
  auto part = part_of({5, 6, 7, 8, 9, 10});
  for (const std::size_t at : {1u, 3u, 5u})
    part.tensors[at].is_rank_0s = true;
  const auto dealt = deal_out(part, 2, 2);
  CHECK(dealt.rank_of == std::vector<std::uint32_t>{1, 0, 1, 0, 0, 0});
  CHECK(dealt.ranks == std::vector<std::uint32_t>{0, 1});
  CHECK(share_of(part, dealt, 1).tensors.size() == 2);
  CHECK(bytes_to_share(part) == 21);
  // A rank that has only the others comes to the same.
  auto others = part;
  std::erase_if(others.tensors, [](const tensor_view& each) { return each.is_rank_0s; });
  CHECK(deal_out(others, 2, 2).checksum == dealt.checksum);
  CHECK(deal_out(others, 2, 2).rank_of == std::vector<std::uint32_t>{1, 1, 0});
  CHECK(bytes_to_share(others) == 21);
  // A rank that sees it otherwise must not write them.
  auto otherwise = part;
  otherwise.tensors[5].is_rank_0s = false;
  CHECK(deal_out(otherwise, 2, 2).checksum != dealt.checksum);
  for (auto& each : part.tensors)
    each.is_rank_0s = true;
  CHECK_FALSE(deal_out(part, 2, 2).is_shared());
}

TEST_CASE("the checksum tells ranks apart that do not have the same tensors", "[snapshot]") {
  const auto here = deal_out(part_of({5, 6, 7}), 2, 4);
  CHECK(here.checksum != 0);
  CHECK(here.checksum == deal_out(part_of({5, 6, 7}), 2, 4).checksum);
  CHECK(here.checksum != deal_out(part_of({5, 6, 8}), 2, 4).checksum);
  CHECK(here.checksum != deal_out(part_of({5, 6}), 2, 4).checksum);
  CHECK(here.checksum != deal_out(part_of({5, 6, 7}), 3, 4).checksum);
  CHECK(deal_out(part_of({5, 6, 7}), 1, 4).checksum != here.checksum);
  CHECK(deal_out(part_of({5, 6, 7}), 1, 4).checksum == deal_out(part_of({5, 6, 7}), 1, 2).checksum);
}

TEST_CASE("an index names the file of each tensor", "[snapshot]") {
  const auto part = part_of({5, 6});
  std::string problem;
  const auto text = index_text(part, deal_out(part, 2, 2), problem);
  REQUIRE(text.has_value());
  CHECK(nlohmann::json::parse(*text) ==
        nlohmann::json{
            {"metadata", {{"total_size", 11}}},
            {"weight_map", {{"t0", "rank-00001.safetensors"}, {"t1", "rank-00000.safetensors"}}}});
  auto twice = part;
  twice.tensors.push_back(twice.tensors[0]);
  CHECK(index_text(twice, deal_out(twice, 2, 2), problem).error() == errc::invalid_argument);
  CHECK(problem == "two tensors have the name 't0'");
}

TEST_CASE("each of several ranks writes a share, and all is found again", "[snapshot]") {
  job_under_test test;
  test.writers = 2;
  test.is_asynchronous = GENERATE(true, false);
  auto ranks = test.open(1, 3);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(3));
  const std::string place = test.folder + "/snapshot-000001-000010/";
  CHECK(names_in(place) == std::set<std::string>{"manifest.json", "model.safetensors.index.json",
                                                 "rank-00000.safetensors", "rank-00001.safetensors",
                                                 "rank-00002.safetensors"});
  const std::map<std::string, std::string> expected = {{"rank-00000.safetensors", "model"},
                                                       {"rank-00001.safetensors", "optimizer"},
                                                       {"rank-00002.safetensors", ""}};
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    const std::string file = read_file(place + name);
    std::string problem;
    const auto content = read_safetensors(file, problem);
    REQUIRE(content.has_value());
    CHECK(content->metadata.at("format") == "pt");
    CHECK(content->tensors.size() == (tensor.empty() ? 1 : 2));
    if (!tensor.empty()) CHECK(content->find(tensor) != nullptr);
    CHECK(content->find("rank.generator") != nullptr);
  }
  round_number round = 1;
  for (const std::uint32_t world_size : {3u, 1u, 2u, 5u}) {
    const auto next = test.open(++round, world_size);
    require_open(next);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto& found = next[rank].job->resumed();
      REQUIRE(found.has_value());
      CHECK(small_state(10, rank).compare(*found) == "");
      CHECK(found->own.has_value() == (world_size == 3));
      CHECK(found->replicated.values == text_map{{"step", "10"}});
    }
  }
  CHECK(test.messages.text() == "");
}

TEST_CASE("a share that is damaged or gone costs the snapshot, and not the one before",
          "[snapshot]") {
  job_under_test test;
  test.writers = 2;
  const bool is_gone = GENERATE(true, false);
  const std::uint32_t next_world_size = GENERATE(3u, 2u);
  {
    auto ranks = test.open(1, 3);
    require_open(ranks);
    CHECK(save(ranks, 10) == all(3));
    CHECK(save(ranks, 20) == all(3));
  }
  const std::string share = test.folder + "/snapshot-000001-000020/rank-00001.safetensors";
  if (is_gone) {
    std::filesystem::remove(share);
  } else {
    std::string bytes = read_file(share);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(share, std::ios::binary) << bytes;
  }
  const auto next = test.open(2, next_world_size);
  require_open(next);
  for (const auto& each : next)
    CHECK(each.job->resumed()->info.step == 10);
  CHECK(test.messages.last().find("snapshot-000001-000020 skipped: ") != std::string::npos);
  CHECK(test.messages.last().find("rank-00001.safetensors: ") != std::string::npos);
}

TEST_CASE("a full disk under the index or a share costs the new snapshot alone", "[snapshot]") {
  job_under_test test;
  test.writers = 2;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(2));
  const std::string victim = GENERATE("rank-00001.safetensors", "model.safetensors.index.json");
  test.disk.refuses_to_create = victim;
  test.disk.fails_with = ENOSPC;
  CHECK(save(ranks, 20) == all(2, system_error(ENOSPC)));
  CHECK(ranks[1].job->problem().find("cannot write " + victim) != std::string::npos);
  CHECK(!std::filesystem::exists(test.folder + "/snapshot-000001-000020"));
  test.disk.fails_with = 0;
  CHECK(save(ranks, 30) == all(2));
  ranks.clear();
  const auto next = test.open(2, 2);
  require_open(next);
  CHECK(next[1].job->resumed()->info.step == 30);
}

namespace {

// Two ranks save the step, rank 1 with another name of a replicated tensor.
std::vector<error_code> save_with_another_name(std::vector<rank_result>& ranks,
                                               std::uint64_t step) {
  std::vector<error_code> errors(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    const small_state kept(step, rank);
    auto state = kept.view();
    if (rank == 1) state.replicated.tensors[1].name = "another";
    errors[rank] = ranks[rank].job->save(step, 0, state);
    if (!errors[rank]) errors[rank] = ranks[rank].job->wait();
  });
  return errors;
}

const std::string what_to_do =
    "mark those that only rank 0 has with is_rank_0s, or let rank 0 write everything (writers = 1)";

}  // namespace

TEST_CASE("ranks that do not have the same tensors save nothing, and say so", "[snapshot]") {
  job_under_test test;
  test.writers = 2;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK(save_with_another_name(ranks, 10) == all(2, errc::invalid_argument));
  CHECK(ranks[1].job->problem() ==
        "cannot save snapshot " + test.folder +
            "/snapshot-000001-000010: rank 1: its replicated tensors have other names, types or "
            "shapes than rank 0's, or other ranks write them; " +
            what_to_do);
  CHECK(save(ranks, 20) == all(2));
}

// With more to write they would save nothing.
TEST_CASE("ranks that do not have the same tensors hear of it while rank 0 writes all",
          "[snapshot]") {
  job_under_test test;
  test.writers = GENERATE(0u, 1u);
  auto ranks = test.open(1, 2);
  require_open(ranks);
  for (const std::uint64_t step : {10, 20})
    CHECK(save_with_another_name(ranks, step) == all(2));
  std::vector<std::string> expected;
  if (test.writers == 0) {
    expected.push_back("snapshot " + test.folder +
                       "/snapshot-000001-000010 has rank 0's replicated tensors; those of rank 1 "
                       "have other names, types or shapes, and a save of 128 MiB or more, which "
                       "several ranks write, would fail: " +
                       what_to_do);
  }
  CHECK(test.messages.all() == expected);
  ranks.clear();
  ranks = test.open(2, 2);
  require_open(ranks);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    CHECK(small_state(20, rank).compare(*ranks[rank].job->resumed()) == "");
}

TEST_CASE("old snapshots with shares go with all their files", "[snapshot]") {
  job_under_test test;
  test.writers = 2;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  for (const std::uint64_t step : {10, 20, 30, 40})
    CHECK(save(ranks, step) == all(2));
  CHECK(!std::filesystem::exists(test.folder + "/snapshot-000001-000010"));
  CHECK(test.messages.text() == "");
}

// Its files have no format entry, and its manifest does not list shares.
TEST_CASE("what an older program has saved is read", "[snapshot]") {
  job_under_test test;
  const small_state of(10);
  const auto state = of.view();
  auto tensors = state.replicated.tensors;
  tensors.push_back(state.own.tensors[0]);
  tensors.back().name = "rank.generator";
  std::string problem;
  const auto header = make_safetensors_header(tensors, {{"step", "10"}}, problem);
  REQUIRE(header.has_value());
  std::string file = header->bytes;
  for (const std::size_t at : header->order)
    file += tensors[at].bytes;
  manifest content{{1, 10, 0, 77, 1}, {{file.size(), checksum_of(file)}}};
  const std::string place = test.folder + "/snapshot-000001-000010";
  std::filesystem::create_directories(place);
  std::ofstream(place + "/rank-00000.safetensors", std::ios::binary) << file;
  std::ofstream(place + "/manifest.json", std::ios::binary) << to_text(content);
  CHECK(to_text(content).find("replicated") == std::string::npos);
  test.writers = 2;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  for (const auto& each : ranks) {
    REQUIRE(each.job->resumed().has_value());
    CHECK(of.compare(*each.job->resumed()) == "");
  }
  CHECK(save(ranks, 20) == all(2));
}

}  // namespace ddprun::tests
