// A round of several ranks, each on a thread with its own connection to one store. Check their
// results after they have ended, because Catch2 must be used on the test's own thread.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/client_of.hpp"
#include "tests/worker/snapshot/hooked_disk.hpp"
#include "tests/worker/snapshot/small_job.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::tests {

struct rank_result {
  open_snapshots job;  // none: it could not be opened
  error_code error;
  std::string problem;
};

// Runs a round with one thread for each rank.
struct job_under_test {
  explicit job_under_test(std::uint16_t port = 0) : store({}, port) {}

  tests::temporary_folder place;
  served_store store;
  hooked_disk disk;
  message_list messages;
  std::string folder = place.path + "/f";
  std::chrono::milliseconds rank_timeout = patience;
  bool is_asynchronous = true;
  std::uint32_t writers = 0;
  instance_id instance = 77;

  worker::snapshots_options options() {
    worker::snapshots_options made;
    made.folder = folder;
    made.is_asynchronous = is_asynchronous;
    made.writers = writers;
    made.rank_timeout = rank_timeout;
    made.on_message = messages.handler();
    made.files = &disk;
    return made;
  }
  rank_result open_rank(round_number round, std::uint32_t rank, std::uint32_t world_size,
                        worker::snapshots_options with) {
    return open_rank_of(store.port(), round, rank, world_size, std::move(with));
  }
  rank_result open_rank_of(std::uint16_t store_port, round_number round, std::uint32_t rank,
                           std::uint32_t world_size, worker::snapshots_options with) {
    worker::environment here = lone_rank(round, instance);
    here.rank = rank;
    here.world_size = world_size;
    here.master_address = "127.0.0.1";
    here.master_port = store_port;
    rank_result found;
    auto opened = worker::snapshots::open(here, std::move(with), found.problem);
    if (opened) found.job = std::move(*opened);
    if (!opened) found.error = opened.error();
    return found;
  }
  template <typename Work>
  static void on_all(std::uint32_t world_size, Work work) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
      threads.emplace_back([=] { work(rank); });
    for (auto& thread : threads)
      thread.join();
  }
  std::vector<rank_result> open(round_number round, std::uint32_t world_size) {
    std::vector<rank_result> ranks(world_size);
    on_all(world_size, [&](std::uint32_t rank) {
      ranks[rank] = open_rank(round, rank, world_size, options());
    });
    return ranks;
  }
};

inline void require_open(const std::vector<rank_result>& ranks) {
  for (const auto& each : ranks) {
    INFO(each.problem);
    REQUIRE(each.job != nullptr);
  }
}

// Runs it on all ranks, and returns the error of each.
inline std::vector<error_code> save(std::vector<rank_result>& ranks, std::uint64_t step) {
  std::vector<error_code> errors(ranks.size());
  job_under_test::on_all(static_cast<std::uint32_t>(ranks.size()), [&](std::uint32_t rank) {
    errors[rank] = ranks[rank].job->save(step, 0, small_state(step, rank).view());
    if (!errors[rank]) errors[rank] = ranks[rank].job->wait();
  });
  return errors;
}

inline std::vector<error_code> all(std::size_t count, error_code error = {}) {
  return std::vector<error_code>(count, error);
}

}  // namespace ddprun::tests
