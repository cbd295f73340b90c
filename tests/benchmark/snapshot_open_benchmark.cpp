// Measures how long it takes to open the snapshots of many ranks: a folder with so many files, each
// of a few bytes, on the disk of the current folder; medians.
//
//   open      a job of one rank: it looks at what each of the ranks would look at by itself
//   read      an evaluation reads it all
//
//   snapshot_open_benchmark [--rounds=N] [--ranks=N] [--folder=DIR]
#include "tests/benchmark/measured.hpp"
#include "worker/snapshot/history.hpp"
#include "worker/snapshot/names.hpp"
#include "worker/snapshot/rank_file.hpp"
#include "worker/snapshot/reader.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::worker;
using benchmark::seconds_of;
using benchmark::spread;

struct options {
  int rounds = 5;
  std::uint32_t ranks = 1000;
  std::string folder = "snapshot-open-benchmark";
};

[[noreturn]] void fail(const std::string& text) {
  benchmark::fail("snapshot_open_benchmark", text);
}

// Makes the snapshot as its ranks would write it, one after the other.
void make_snapshot(const options& chosen) {
  file_system& files = posix_file_system();
  const auto generation = claim_folder(files, chosen.folder, {}, write_to_stderr);
  if (!generation) fail("cannot claim " + chosen.folder);
  manifest content;
  content.info.generation = *generation;
  content.info.step = 1;
  const std::string place = chosen.folder + "/" + snapshot_name(content.order());
  std::filesystem::create_directories(place);
  for (std::uint32_t rank = 0; rank < chosen.ranks; ++rank) {
    const std::string bytes = "of rank " + std::to_string(rank);
    tensor_view view;
    view.name = rank == 0 ? "model" : "generator";
    view.shape = {bytes.size()};
    view.bytes = bytes;
    snapshot_part replicated, own;
    (rank == 0 ? replicated : own).tensors.push_back(view);
    std::string problem;
    const auto layout = lay_out(replicated, own, problem);
    if (!layout) fail(problem);
    const auto record =
        write_rank_file(files, place + "/" + rank_file_name(rank), *layout, [] { return false; });
    if (!record) fail("cannot write in " + place + ": " + record.error().message());
    content.files.push_back(*record);
  }
  snapshot_history history(files, chosen.folder, {}, *generation, {}, write_to_stderr);
  if (const auto failed = history.commit(content)) fail(failed->text);
}

options parse(int count, char** values) {
  options chosen;
  benchmark::read_options("snapshot_open_benchmark", "[--rounds=N] [--ranks=N] [--folder=DIR]",
                          count, values,
                          {{"--rounds=", benchmark::into_number(chosen.rounds)},
                           {"--ranks=", benchmark::into_number(chosen.ranks)},
                           {"--folder=", benchmark::into_text(chosen.folder)}});
  if (chosen.rounds < 1 || chosen.ranks < 1) fail("too small");
  return chosen;
}

}  // namespace

int main(int count, char** values) {
  const options chosen = parse(count, values);
  std::filesystem::remove_all(chosen.folder);
  std::filesystem::create_directories(chosen.folder);
  make_snapshot(chosen);
  std::vector<double> open_milliseconds, read_milliseconds;
  for (int round = 0; round < chosen.rounds; ++round) {
    open_milliseconds.push_back(1000 * seconds_of([&] {
                                  snapshots_options keeping;
                                  keeping.folder = chosen.folder;
                                  std::string problem;
                                  const auto opened =
                                      snapshots::open(environment(), keeping, problem);
                                  if (!opened) fail(problem);
                                  if (!(*opened)->resumed()) fail("nothing was found");
                                }));
    read_milliseconds.push_back(1000 * seconds_of([&] {
                                  std::string problem;
                                  const auto read = read_newest_snapshot(chosen.folder, problem);
                                  if (!read || !*read) fail("nothing was read: " + problem);
                                }));
  }
  std::printf("files of %u ranks, %d rounds: median (least to most)\n", chosen.ranks,
              chosen.rounds);
  std::printf("open, ms                                 %s\n", spread(open_milliseconds).c_str());
  std::printf("read by an evaluation, ms                %s\n", spread(read_milliseconds).c_str());
  std::filesystem::remove_all(chosen.folder);
}
