// One folder in memory, and jobs of one rank that open it one after the other.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/fault_file_system.hpp"
#include "tests/worker/snapshot/small_job.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::tests {

struct folder_under_test {
  fault_file_system files;
  message_list messages;
  std::string problem;
  std::size_t keep = 3;
  bool is_asynchronous = true;
  bool distrust = true;
  std::optional<std::uint32_t> restart_count;  // none: one less than the round

  result<open_snapshots> try_open(round_number round, instance_id instance = 77) {
    worker::snapshots_options options;
    options.folder = "f";
    options.keep = keep;
    options.is_asynchronous = is_asynchronous;
    options.distrust = distrust;
    options.on_message = messages.handler();
    options.files = &files;
    problem.clear();
    auto here = lone_rank(round, instance);
    here.restart_count = restart_count.value_or(here.restart_count);
    return worker::snapshots::open(here, options, problem);
  }
  open_snapshots open(round_number round, instance_id instance = 77) {
    auto opened = try_open(round, instance);
    INFO(problem);
    REQUIRE(opened.has_value());
    return std::move(*opened);
  }
  // The step of the snapshot that the next job resumes from; 0: from the beginning.
  std::uint64_t next_step() {
    const auto opened = open(++probe_, 99);
    const auto& found = opened->resumed();
    if (!found) return 0;
    CHECK(small_state(found->info.step).compare(*found) == "");
    const auto step = found->info.step;
    CHECK_FALSE(opened->close());
    return step;
  }

 private:
  round_number probe_ = 0;
};

}  // namespace ddprun::tests
