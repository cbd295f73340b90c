#include "launcher/evidence/evidence_folder.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <string>

namespace ddprun::launcher::evidence {
namespace {

node_evidence one_rank() {
  rank_evidence rank;
  rank.rank = 3;
  rank.local_rank = 1;
  rank.pid = 4711;
  rank.state = 'S';
  rank.wait_channel = "futex_wait_queue";
  rank.is_asked = true;
  rank.stacks =
      "Current thread 0x1 (most recent call first):\n  File \"/a/train.py\", line 88 in forward\n";
  rank.stack = main_stack(rank.stacks);
  rank.errors_tail = "the last words";
  return {{rank}, "/sys/fs/cgroup/memory.events\noom 1\n", {"NVRM: Xid 79"}};
}

}  // namespace

TEST_CASE("the evidence of a round is a folder with a file for each rank and one for the node") {
  const tests::temporary_folder above;
  const std::string folder = above.path + "/evidence";
  CHECK(write_evidence(folder, one_rank()).empty());
  CHECK(tests::content_of(folder + "/rank_3.txt") ==
        "rank 3 (local rank 1), process 4711\n"
        "state S, in the kernel's futex_wait_queue\n\n"
        "== threads of Python, the innermost call first\n"
        "Current thread 0x1 (most recent call first):\n"
        "  File \"/a/train.py\", line 88 in forward\n\n"
        "== the end of its standard error\n"
        "the last words\n");
  CHECK(tests::content_of(folder + "/node.txt") ==
        "rank 3 stood in forward (train.py:88)\n\n"
        "== memory\n/sys/fs/cgroup/memory.events\noom 1\n\n"
        "== the kernel's log since the round began\nNVRM: Xid 79\n");
}

TEST_CASE("of a rank that was not looked at the evidence says how it ended, and its last words") {
  const tests::temporary_folder above;
  const std::string folder = above.path + "/evidence";
  rank_evidence failed;
  failed.rank = 2;
  failed.pid = 4711;
  failed.end = "it ended: exit code 3";
  failed.output_tail = "step 7";
  failed.errors_tail = "loss is NaN";
  CHECK(write_evidence(folder, {{failed}, "", {"NVRM: Xid 79"}, ""}).empty());
  CHECK(tests::content_of(folder + "/rank_2.txt") ==
        "rank 2 (local rank 0), process 4711\n"
        "it ended: exit code 3\n\n"
        "== the end of its standard output\nstep 7\n\n"
        "== the end of its standard error\nloss is NaN\n");
  CHECK(tests::content_of(folder + "/node.txt") ==
        "\n== the kernel's log since the round began\nNVRM: Xid 79\n");
}

TEST_CASE("what stands in the folder's place is neither followed nor written over") {
  const tests::temporary_folder above;
  const std::string folder = above.path + "/evidence";
  const std::string aim = above.path + "/aim";
  std::filesystem::create_directory(aim);
  std::filesystem::create_directory_symlink(aim, folder);
  CHECK(write_evidence(folder, one_rank()) ==
        "cannot save the evidence in " + folder + ": File exists");
  CHECK(std::filesystem::is_empty(aim));
  CHECK(write_evidence(above.path + "/none/evidence", one_rank()) ==
        "cannot save the evidence in " + above.path + "/none/evidence: No such file or directory");
}

}  // namespace ddprun::launcher::evidence
