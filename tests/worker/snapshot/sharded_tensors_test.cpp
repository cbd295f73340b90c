// Pieces of larger tensors, saved by some ranks and read by more or fewer.
#include "worker/snapshot/sharded_tensors.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/broadcast_of_threads.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/names.hpp"
#include "worker/snapshot/reader.hpp"
#include "worker/snapshot/tensor_region.hpp"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

using numbers = std::vector<std::uint64_t>;

// Each element has its index in the whole as its value.
std::vector<std::uint32_t> elements(const tensor_region& region, const numbers& whole) {
  std::vector<std::uint32_t> values;
  const auto count = elements_of(region);
  for (std::uint64_t index = 0; index < count; ++index) {
    std::uint64_t left = index;
    std::uint64_t place = 0;
    std::uint64_t step = 1;
    for (std::size_t dimension = whole.size(); dimension-- > 0;) {
      place += (left % region.shape[dimension] + region.offset[dimension]) * step;
      left /= region.shape[dimension];
      step *= whole[dimension];
    }
    values.push_back(static_cast<std::uint32_t>(place));
  }
  return values;
}

std::string_view bytes_in(const std::vector<std::uint32_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]};
}

tensor_region random_region(std::mt19937& random, const numbers& whole) {
  tensor_region region;
  for (const std::uint64_t length : whole) {
    region.offset.push_back(random() % length);
    region.shape.push_back(1 + random() % (length - region.offset.back()));
  }
  return region;
}

// Rows of a matrix, distributed as evenly as possible.
tensor_region rows_of(std::uint32_t rank, std::uint32_t world_size, const numbers& whole) {
  const std::uint64_t begin = whole[0] * rank / world_size;
  const std::uint64_t end = whole[0] * (rank + 1) / world_size;
  return {{begin, 0}, {end - begin, whole[1]}};
}

const numbers matrix = {10, 7};

struct piece_of_matrix {
  piece_of_matrix(std::uint32_t rank, std::uint32_t world_size)
      : region(rows_of(rank, world_size, matrix)), values(elements(region, matrix)) {}

  snapshot_state state(std::uint64_t step, std::uint32_t rank) {
    small.emplace(step, rank);
    auto made = small->view();
    tensor_view view;
    view.name = "moments";
    view.type = element_type::u32;
    view.shape = region.shape;
    view.bytes = bytes_in(values);
    view.piece_of = {matrix, region.offset};
    made.own.tensors.push_back(view);
    return made;
  }
  tensor_region region;
  std::vector<std::uint32_t> values;
  std::optional<small_state> small;
};

void save_pieces(job_under_test& test, std::uint32_t world_size,
                 const std::vector<std::uint64_t>& steps = {10}) {
  auto ranks = test.open(1, world_size);
  require_open(ranks);
  for (const std::uint64_t step : steps) {
    std::vector<error_code> errors(world_size);
    job_under_test::on_all(world_size, [&](std::uint32_t rank) {
      piece_of_matrix mine(rank, world_size);
      errors[rank] = ranks[rank].job->progress(step);
      if (!errors[rank]) errors[rank] = ranks[rank].job->save(step, 0, mine.state(step, rank));
      if (!errors[rank]) errors[rank] = ranks[rank].job->wait();
    });
    REQUIRE(errors == all(world_size));
  }
}

// What one rank alone sees of a file, as on a node that has lost the file server or has an outdated
// copy.
class one_sees_otherwise final : public hooked_disk {
 public:
  std::string name;  // the end of the file's name
  int error = 0;     // returned by map(); 0: the file is cut short

  result<std::unique_ptr<mapped_file>> map(const std::string& path) override {
    auto mapped = hooked_disk::map(path);
    if (!path.ends_with(name) || !mapped) return mapped;
    if (error != 0) return system_error(error);
    struct short_file final : mapped_file {
      explicit short_file(std::unique_ptr<mapped_file> of) : whole(std::move(of)) {}
      std::string_view bytes() const override { return whole->bytes().substr(1); }
      std::unique_ptr<mapped_file> whole;
    };
    return std::unique_ptr<mapped_file>(std::make_unique<short_file>(*std::move(mapped)));
  }
};

// Opens the job on two ranks, of which rank 1 has this disk.
std::vector<rank_result> open_by_two(job_under_test& test, round_number round,
                                     one_sees_otherwise& disk, bool hands_on = false) {
  std::vector<rank_result> ranks(2);
  broadcast_of_threads between(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    auto with = test.options();
    if (rank == 1) with.files = &disk;
    if (hands_on) with.broadcast = between.of(rank);
    ranks[rank] = test.open_rank(round, rank, 2, with);
  });
  return ranks;
}

std::string read_region(const sharded_tensors& from, const tensor_region& region) {
  std::vector<std::uint32_t> values(elements_of(region), ~std::uint32_t{0});
  std::string problem;
  const auto error = from.read("moments", region, reinterpret_cast<char*>(values.data()), problem);
  if (error) return error.message() + ": " + problem;
  return values == elements(region, matrix) ? "" : "other elements";
}

}  // namespace

TEST_CASE("a part of a region goes to its place in another", "[snapshot]") {
  std::mt19937 random(3);
  for (int turn = 0; turn < 2000; ++turn) {
    numbers whole(random() % 5);
    for (auto& each : whole)
      each = 1 + random() % 5;
    const auto from = random_region(random, whole);
    const auto to = random_region(random, whole);
    const auto part = common_part(from, to);
    const auto source = elements(from, whole);
    const auto expected = elements(to, whole);
    const std::set<std::uint32_t> there(source.begin(), source.end());
    std::vector<std::uint32_t> target(expected.size(), ~std::uint32_t{0});
    if (part) {
      copy_part(*part, sizeof target[0], from, bytes_in(source).data(), to,
                reinterpret_cast<char*>(target.data()));
    }
    std::size_t count = 0;
    for (std::size_t at = 0; at < target.size(); ++at) {
      const bool is_common = there.contains(expected[at]);
      count += is_common ? 1 : 0;
      REQUIRE(target[at] == (is_common ? expected[at] : ~std::uint32_t{0}));
    }
    CHECK(count == (part ? elements_of(*part) : 0));
  }
}

TEST_CASE("a region lies in its whole or does not", "[snapshot]") {
  CHECK(is_inside({{0, 0}, {10, 7}}, matrix));
  CHECK(is_inside({{10, 0}, {0, 7}}, matrix));
  CHECK(!is_inside({{9, 0}, {2, 7}}, matrix));
  CHECK(!is_inside({{~std::uint64_t{0}, 0}, {2, 7}}, matrix));
  CHECK(!is_inside({{0}, {10}}, matrix));
  CHECK(is_inside({}, {}));
}

TEST_CASE("another number of ranks reads its own pieces", "[snapshot]") {
  job_under_test test;
  test.writers = GENERATE(1u, 2u);
  save_pieces(test, 4);
  round_number round = 1;
  for (const std::uint32_t world_size : {1u, 2u, 3u, 5u, 12u, 4u}) {
    INFO(world_size << " ranks");
    const auto next = test.open(++round, world_size);
    require_open(next);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto& found = *next[rank].job->resumed();
      CHECK((found.sharded == nullptr) == (world_size == 4));
      if (world_size == 4) {
        const piece_of_matrix mine(rank, world_size);
        const auto* const tensor = found.own->find("moments");
        REQUIRE(tensor != nullptr);
        CHECK(tensor->bytes == bytes_in(mine.values));
        REQUIRE(tensor->piece_of.has_value());
        CHECK(tensor->piece_of->shape == matrix);
        CHECK(tensor->piece_of->offset == mine.region.offset);
        continue;
      }
      CHECK(read_region(*found.sharded, rows_of(rank, world_size, matrix)) == "");
      CHECK(read_region(*found.sharded, {{1, 2}, {8, 3}}) == "");
      std::string why;
      CHECK_FALSE(found.sharded->open_all(why));
    }
  }
  std::string problem;
  const auto read = read_newest_snapshot(test.folder, problem);
  REQUIRE(read.has_value());
  CHECK(read_region(*(*read)->sharded, {{0, 0}, matrix}) == "");
}

TEST_CASE("a damaged piece costs the snapshot where others read it", "[snapshot]") {
  job_under_test test;
  save_pieces(test, 4);
  std::fstream file(test.folder + "/snapshot-000001-000010/rank-00003.safetensors",
                    std::ios::in | std::ios::out);
  file.seekp(-1, std::ios::end);
  file.put('!');
  file.close();
  const auto next = test.open(2, 2);
  for (const auto& each : next)
    CHECK(each.error == errc::damaged);
  CHECK(test.messages.text().find("rank 1: rank-00003.safetensors: its bytes do not match their "
                                  "checksum") != std::string::npos);
}

TEST_CASE("a rank opens the files with the pieces that it reads, and those that it checks",
          "[snapshot]") {
  job_under_test test;
  save_pieces(test, 8);
  constexpr std::uint32_t world_size = 4;
  hooked_disk disks[world_size];
  std::set<std::string> looked[world_size];
  std::vector<rank_result> ranks(world_size);
  job_under_test::on_all(world_size, [&](std::uint32_t rank) {
    disks[rank].before_look = [&, rank](const std::string& path) {
      if (path.ends_with(".safetensors")) looked[rank].insert(path.substr(path.rfind('/') + 1));
    };
    auto with = test.options();
    with.files = &disks[rank];
    ranks[rank] = test.open_rank(2, rank, world_size, with);
  });
  require_open(ranks);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    INFO("rank " << rank);
    // The first has what all ranks have alike.
    std::set<std::string> expected{rank_file_name(0), rank_file_name(rank),
                                   rank_file_name(rank + world_size)};
    CHECK(looked[rank] == expected);
    const auto& sharded = *ranks[rank].job->resumed()->sharded;
    CHECK(read_region(sharded, rows_of(rank, world_size, matrix)) == "");
    expected.insert({rank_file_name(2 * rank), rank_file_name(2 * rank + 1)});
    CHECK(looked[rank] == expected);
    CHECK(read_region(sharded, {{0, 0}, matrix}) == "");
    CHECK(looked[rank].size() == 8);
  }
}

TEST_CASE("a piece that one rank alone cannot open is its error, with the name", "[snapshot]") {
  job_under_test test;
  save_pieces(test, 4, {10, 20});
  const int error = GENERATE(EACCES, 0);
  one_sees_otherwise disk;
  disk.name = "000020/rank-00002.safetensors";  // rank 0 looks at its bytes
  disk.error = error;
  const auto ranks = open_by_two(test, 2, disk, GENERATE(false, true));
  require_open(ranks);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto& found = *ranks[rank].job->resumed();
    CHECK(found.info.step == 20);
    const std::string said = read_region(*found.sharded, rows_of(1, 2, matrix));
    INFO(said);
    if (rank == 0) {
      CHECK(said == "");
    } else if (error == 0) {
      CHECK(said.find("rank-00002.safetensors: it has ") != std::string::npos);
    } else {
      CHECK(said == "Permission denied: rank-00002.safetensors: Permission denied");
    }
    // What is in other files is there.
    CHECK(read_region(*found.sharded, rows_of(0, 2, matrix)) == "");
  }
}

TEST_CASE("a piece that its rank cannot open stops all of them before any goes on", "[snapshot]") {
  job_under_test test;
  save_pieces(test, 4, {10, 20});
  const std::string place = test.folder + "/snapshot-000001-000020";
  const std::string name = "rank-00003.safetensors";
  one_sees_otherwise disk;
  disk.name = "000020/" + name;
  disk.error = EACCES;
  const auto ranks = open_by_two(test, 2, disk, GENERATE(false, true));
  const std::string line = "snapshot " + place + " cannot be read: rank 1: " + name +
                           ": Permission denied; start again when it can be, or move it away to "
                           "resume from the one before it";
  for (const auto& each : ranks)
    CHECK(each.error == system_error(EACCES));
  CHECK(ranks[0].problem == line);
  CHECK(ranks[1].problem == "rank 0: " + line);
  CHECK_FALSE(std::filesystem::exists(place + "/resumed-000002"));
}

TEST_CASE("a piece that its rank finds cut short costs the snapshot for all", "[snapshot]") {
  job_under_test test;
  save_pieces(test, 4, {10, 20});
  one_sees_otherwise disk;
  disk.name = "000020/rank-00003.safetensors";
  const auto ranks = open_by_two(test, 2, disk);
  require_open(ranks);
  for (const auto& each : ranks) {
    CHECK(each.job->resumed()->info.step == 10);
    CHECK(read_region(*each.job->resumed()->sharded, {{0, 0}, matrix}) == "");
  }
  const std::string place = test.folder + "/snapshot-000001-0000";
  CHECK(test.messages.last().starts_with("snapshot " + place +
                                         "20 skipped: rank 1: rank-00003.safetensors: it has "));
  CHECK_FALSE(std::filesystem::exists(place + "20/resumed-000002"));
  CHECK(std::filesystem::exists(place + "10/resumed-000002"));
}

TEST_CASE("a region that is not there is named", "[snapshot]") {
  sharded_tensors all;
  std::string problem;
  std::vector<std::uint32_t> values(70);
  std::uint32_t files = 0;
  const auto add = [&](const tensor_region& region, const numbers& whole) {
    tensor_view view;
    view.name = "moments";
    view.type = element_type::u32;
    view.shape = region.shape;
    view.bytes = bytes_in(values);
    view.piece_of = {whole, region.offset};
    snapshot_part own;
    own.tensors.push_back(view);
    return all.add(files++, own, nullptr, problem);
  };
  const auto read = [&](const tensor_region& region) {
    return all.read("moments", region, reinterpret_cast<char*>(values.data()), problem);
  };
  CHECK(read({{0, 0}, {1, 7}}) == errc::not_found);
  CHECK_FALSE(add({{0, 0}, {5, 7}}, matrix));
  CHECK_FALSE(add({{0, 0}, {5, 7}}, matrix));  // two ranks may have the same piece
  CHECK_FALSE(read({{0, 0}, {5, 7}}));
  CHECK(read({{4, 0}, {2, 7}}) == errc::damaged);
  CHECK(problem == "no rank's file has all of region [2, 7] at [4, 0] of moments U32 [10, 7]");
  CHECK(read({{9, 0}, {2, 7}}) == errc::invalid_argument);
  CHECK(problem == "moments U32 [10, 7] has no region [2, 7] at [9, 0]");
  CHECK_FALSE(add({{4, 0}, {2, 7}}, matrix));
  CHECK(read({{4, 0}, {2, 7}}) == errc::damaged);
  CHECK(add({{0, 0}, {5, 7}}, {11, 7}) == errc::damaged);
  CHECK(add({{9, 0}, {5, 7}}, matrix) == errc::damaged);
}

TEST_CASE("of a file that is refused no piece is left", "[snapshot]") {
  const std::vector<std::uint32_t> values(70);
  const auto piece_of = [&](std::string name, const tensor_region& region, const numbers& whole) {
    tensor_view view;
    view.name = std::move(name);
    view.type = element_type::u32;
    view.shape = region.shape;
    view.bytes = bytes_in(values);
    view.piece_of = {whole, region.offset};
    return view;
  };
  const tensor_region top{{0, 0}, {5, 7}};
  const tensor_region bottom{{5, 0}, {5, 7}};
  sharded_tensors all;
  std::string problem;
  snapshot_part good;
  good.tensors = {piece_of("moments", top, matrix)};
  CHECK_FALSE(all.add(0, good, nullptr, problem));
  // What is wrong comes after pieces that fit: of a tensor that is known, of itself, and outside.
  const std::vector<tensor_view> wrong = {piece_of("moments", bottom, {11, 7}),
                                          piece_of("others", bottom, {11, 7}),
                                          piece_of("third", {{9, 0}, {5, 7}}, matrix)};
  for (const auto& each : wrong) {
    INFO(each.name);
    snapshot_part own;
    own.tensors = {piece_of("moments", bottom, matrix), piece_of("others", top, matrix), each};
    CHECK(all.add(1, own, nullptr, problem) == errc::damaged);
    CHECK(problem.find("does not fit into " + each.name + " U32 [10, 7]") != std::string::npos);
    std::vector<std::uint32_t> read(35);
    auto* const to = reinterpret_cast<char*>(read.data());
    CHECK(all.read("moments", bottom, to, problem) == errc::damaged);
    CHECK(all.read("others", top, to, problem) == errc::not_found);
    CHECK(all.read("third", top, to, problem) == errc::not_found);
    CHECK_FALSE(all.read("moments", top, to, problem));
  }
}

TEST_CASE("a piece that is none of its whole is refused", "[snapshot]") {
  job_under_test test;
  auto ranks = test.open(1, 1);
  require_open(ranks);
  piece_of_matrix mine(0, 2);
  auto state = mine.state(10, 0);
  state.own.tensors.back().piece_of->offset = {6, 0};
  (void)ranks[0].job->save(10, 0, state);
  CHECK(ranks[0].job->wait() == errc::invalid_argument);
  CHECK(ranks[0].job->problem().ends_with("'moments' does not fit into the whole that it names"));
  state = mine.state(10, 0);
  state.replicated.tensors.push_back(state.own.tensors.back());
  (void)ranks[0].job->save(10, 0, state);
  CHECK(ranks[0].job->wait() == errc::invalid_argument);
  CHECK(ranks[0].job->problem().ends_with(
      "'moments' is a piece, which cannot be alike on all ranks"));
}

}  // namespace ddprun::tests
