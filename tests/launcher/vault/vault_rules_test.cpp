#include "launcher/vault/vault_rules.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

using namespace ddprun::launcher::vault;

namespace {

found_file file(std::string path, std::int64_t modified, std::uint64_t size = 10) {
  return {std::move(path), file_kind::regular, size, size, modified};
}

found_file folder(std::string path, std::int64_t modified) {
  return {std::move(path), file_kind::folder, 0, 0, modified};
}

std::vector<std::string> names(const std::vector<entry>& entries) {
  std::vector<std::string> found;
  for (const entry& one : entries)
    found.push_back(one.what.name);
  return found;
}

std::vector<std::string> paths(const entry& one) {
  std::vector<std::string> found;
  for (const found_file& each : one.files)
    found.push_back(each.path);
  return found;
}

using words = std::vector<std::string>;

}  // namespace

TEST_CASE("an entry is complete once its marker is there", "[vault]") {
  std::vector<found_file> found = {folder("step-1", 9), file("step-1/model.pt", 1),
                                   file("step-1/more/optimizer.pt", 2)};
  CHECK(complete_entries(found).empty());
  found.push_back(file("step-1/.complete", 3, 0));
  const auto complete = complete_entries(found);
  REQUIRE(names(complete) == words{"step-1"});
  CHECK(complete[0].what.order == 3);
  CHECK(complete[0].size == 20);
  CHECK(paths(complete[0]) ==
        words{"step-1/model.pt", "step-1/more/optimizer.pt", "step-1/.complete"});
}

TEST_CASE("a marker that is older than a file of its entry does not count", "[vault]") {
  CHECK(complete_entries({file("step-1/model.pt", 4), file("step-1/.complete", 3)}).empty());
  CHECK(complete_entries({file("last.pt", 4), file("last.pt.complete", 3)}).empty());
  CHECK(names(complete_entries({file("last.pt", 4), file("last.pt.complete", 4)})) ==
        words{"last.pt"});
}

TEST_CASE("a marker beside a file, or a folder, is as good", "[vault]") {
  const auto complete =
      complete_entries({file("a.pt", 1), file("a.pt.complete", 2), file("a.pt.tmp", 9),
                        file("b/x", 3), file("b.complete", 4), file("gone.complete", 5)});
  REQUIRE(names(complete) == words{"a.pt", "b"});
  CHECK(paths(complete[0]) == words{"a.pt", "a.pt.complete"});
  CHECK(paths(complete[1]) == words{"b/x", "b.complete"});
}

TEST_CASE("the markers of DCP and of worker/snapshot are known where they are whole", "[vault]") {
  CHECK(names(complete_entries({file("step-1/__0_0.distcp", 1), file("step-1/.metadata", 2)})) ==
        words{"step-1"});
  // accelerate writes a checkpoint's model first, and its other parts later.
  CHECK(complete_entries(
            {file("checkpoint-1/model/__0_0.distcp", 1), file("checkpoint-1/model/.metadata", 2)})
            .empty());
  const auto snapshots = complete_entries(
      {file("snapshots/claim-000001", 1), file("snapshots/snapshot-000001-000040/rank-00000", 2),
       file("snapshots/snapshot-000001-000040/manifest.json", 3),
       file("snapshots/snapshot-000001-000040/resumed-000002", 9), file("other/manifest.json", 4)});
  REQUIRE(names(snapshots) == words{"snapshots/snapshot-000001-000040"});
  CHECK(snapshots[0].files.size() == 2);
}

TEST_CASE("files of DCP without the .metadata in their folder are a part", "[vault]") {
  const found_file part = file("step-1/__2_0.distcp", 1), other = file("step-1/__11_3.distcp", 1);
  CHECK(folders_of_parts({part, other, folder("step-1", 1)}) == words{"step-1"});
  CHECK(folders_of_parts({file("step-2/__0_0.distcp", 1), part}) == words{"step-1", "step-2"});
  CHECK(folders_of_parts({file("out/checkpoint-5/model/__2_0.distcp", 1), part}) ==
        words{"out/checkpoint-5/model", "step-1"});
  CHECK(folders_of_parts({part, other, file("step-1/.metadata", 2)}).empty());
  // Our markers say nothing of the rest of it.
  for (const char* marker : {"step-1/.complete", "step-1.complete", "step-1/a/.metadata"})
    CHECK(folders_of_parts({part, other, file(marker, 2)}) == words{"step-1"});
  for (const char* name :
       {"step-1/model.pt", "step-1/__0.distcp", "step-1/__a_0.distcp", "step-1/__0_.distcp",
        "step-1/0_0.distcp", "step-1/__0_0.distcp.tmp", "__0_0.distcp"})
    CHECK(folders_of_parts({file(name, 1)}).empty());
  CHECK(folders_of_parts({folder("step-1/__0_0.distcp", 1)}).empty());
  CHECK(folders_of_parts({part, folder("step-1/.metadata", 2)}) == words{"step-1"});
}

// As a Trainer of transformers saves with FSDP, on a node without the coordinator.
TEST_CASE("an entry with a part of a DCP checkpoint, however deep, is not kept", "[vault]") {
  std::vector<found_file> found = {file("out/checkpoint-5/pytorch_model_fsdp_0/__2_0.distcp", 1),
                                   file("out/checkpoint-5/optimizer_0/__2_0.distcp", 1),
                                   file("out/checkpoint-5/optimizer_0/.metadata", 2),
                                   file("out/checkpoint-5/trainer_state.json", 2),
                                   file("out/checkpoint-5/.complete", 3)};
  const auto complete = complete_entries(found);
  REQUIRE(names(complete) == words{"out/checkpoint-5"});
  CHECK(complete[0].problem.starts_with(
      "out/checkpoint-5/pytorch_model_fsdp_0 has files of a DCP checkpoint and no .metadata: "));
  found.push_back(file("out/checkpoint-5/pytorch_model_fsdp_0/.metadata", 2));
  // Another one's part does not matter.
  found.push_back(file("out/checkpoint-50/pytorch_model_fsdp_0/__2_0.distcp", 1));
  CHECK(complete_entries(found)[0].problem.empty());
}

TEST_CASE("an entry within an entry is a part of it", "[vault]") {
  const auto complete = complete_entries(
      {file("step-1/a/x", 1), file("step-1/a/.complete", 2), file("step-1/.complete", 3)});
  REQUIRE(names(complete) == words{"step-1"});
  CHECK(complete[0].files.size() == 3);
}

TEST_CASE("entries are in the order of their markers, not of their names", "[vault]") {
  CHECK(names(complete_entries({file("step-9/x", 1), file("step-9/.complete", 2),
                                file("step-10/x", 3), file("step-10/.complete", 4),
                                file("step-1/x", 5), file("step-1/.complete", 6)})) ==
        words{"step-9", "step-10", "step-1"});
}

TEST_CASE("what is neither a file nor a folder is a problem of its entry alone", "[vault]") {
  found_file link = file("step-1/link", 1);
  link.kind = file_kind::strange;
  const auto complete = complete_entries(
      {link, file("step-1/.complete", 2), file("step-2/x", 1), file("step-2/.complete", 3)});
  REQUIRE(complete.size() == 2);
  CHECK(complete[0].problem == "step-1/link is neither a file nor a folder");
  CHECK(complete[1].problem.empty());
  found_file marker = file("step-3/.complete", 9);
  marker.kind = file_kind::strange;
  CHECK(complete_entries({file("step-3/x", 1), marker}).empty());
  CHECK_FALSE(complete_entries({file("s/a\nb", 1), file("s/.complete", 2)})[0].problem.empty());
}

TEST_CASE("the oldest go from memory until one more has room, and never the newest", "[vault]") {
  const auto complete =
      complete_entries({file("a/x", 1, 100), file("a/.complete", 1, 0), file("b/x", 2, 100),
                        file("b/.complete", 2, 0), file("c/x", 3, 100), file("c/.complete", 3, 0)});
  const auto dropped = [&](std::uint64_t occupied, std::uint64_t limit) {
    words found;
    for (const version& one : to_drop(complete, occupied, limit))
      found.push_back(one.name);
    return found;
  };
  CHECK(dropped(300, 400) == words{});
  CHECK(dropped(300, 399) == words{"a"});
  CHECK(dropped(300, 200) == words{"a", "b"});
  CHECK(dropped(1000, 1) == words{"a", "b"});
  CHECK(to_drop({}, 1000, 1).empty());
}

TEST_CASE("paths that lead out of a folder are none", "[vault]") {
  for (const char* good : {"a", "a/b.pt", "a/..b", ".complete", "out/checkpoint-500/x y"})
    CHECK(is_safe_path(good));
  for (const char* bad : {"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\nb"})
    CHECK_FALSE(is_safe_path(bad));
  CHECK_FALSE(is_safe_path(std::string(300, 'a')));
}

TEST_CASE("the names of folders on disk are in the order of their age", "[vault]") {
  const std::string first = folder_of({999, "step-9"});
  const std::string second = folder_of({1'732'606'339'000'000'000, "out/step-10"});
  CHECK(first == "00000000000000000999-step-9");
  CHECK(second == "01732606339000000000-out_step-10");
  CHECK(first < second);
  CHECK(order_in(second) == 1'732'606'339'000'000'000);
  for (const char* other : {"", "step-1", ".lock", "set-aside-00000000000000000999-step-9",
                            "00000000000000000999", "0000000000000000099x-step-9"})
    CHECK_FALSE(order_in(other));
}

TEST_CASE("what two rounds in a row have failed from is distrusted", "[vault]") {
  const version old{1, "step-1"}, newer{2, "step-2"};
  trial one;
  one.begin(old);
  CHECK_FALSE(one.fail(newer, true));  // it led to another
  one.begin(newer);
  CHECK_FALSE(one.fail(newer, true));
  one.begin(newer);
  CHECK(one.fail(newer, true) == newer);
  // The entry before it gets its own two failures.
  one.begin(old);
  CHECK_FALSE(one.fail(old, true));
  one.begin(old);
  CHECK(one.fail(old, true) == old);
}

TEST_CASE("progress forgives, and so does nothing to go on from", "[vault]") {
  const version first{1, "step-1"}, second{2, "step-2"};
  trial one;
  one.begin(first);
  CHECK_FALSE(one.fail(first, true));
  one.begin(first);
  CHECK_FALSE(one.fail(second, true));
  one.begin(second);
  CHECK_FALSE(one.fail(second, true));
  one.begin(std::nullopt);
  CHECK_FALSE(one.fail(std::nullopt, true));
  one.begin(std::nullopt);
  CHECK_FALSE(one.fail(std::nullopt, true));
}

TEST_CASE("what was not resumed from is not distrusted", "[vault]") {
  const version newest{2, "step-2"};
  trial one;
  for (const bool has_resumed : {true, false, true, false, false}) {
    one.begin(newest);
    CHECK_FALSE(one.fail(newest, has_resumed));
  }
  one.begin(newest);
  CHECK_FALSE(one.fail(newest, true));
  one.begin(newest);
  CHECK(one.fail(newest, true) == newest);
}

TEST_CASE("a note beside an entry tells whether it was resumed from", "[vault]") {
  const version at_top{1, "step-1"}, below{2, "out/deep/step-2"};
  CHECK(resumed_note_of(at_top) == ".resumed-from");
  CHECK(resumed_note_of(below) == "out/deep/.resumed-from");
  CHECK(was_resumed(below, std::nullopt));
  for (const char* same : {"step-2", "step-2\n"})
    CHECK(was_resumed(below, same));
  for (const char* other : {"", "\n", "step-1", "step-", "out/deep/step-2", "step-1\nstep-2"})
    CHECK_FALSE(was_resumed(below, other));
}

TEST_CASE("a note about what was resumed from belongs to no entry", "[vault]") {
  const auto found = complete_entries({{.path = "step-1/model", .modified_ns = 1},
                                       {.path = "step-1/.complete", .modified_ns = 2},
                                       {.path = "step-1/.resumed-from", .modified_ns = 3},
                                       {.path = ".resumed-from", .modified_ns = 3}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].files.size() == 2);
}

TEST_CASE("a vault takes no more memory than there is", "[vault]") {
  constexpr std::uint64_t gib = 1 << 30;
  CHECK(budget_for(0, {.size = 8 * gib, .free = 8 * gib, .left = 16 * gib}).limit == 4 * gib);
  CHECK(budget_for(0, {.size = 8 * gib, .free = 2 * gib, .left = 16 * gib}).limit == gib);
  CHECK(budget_for(0, {.size = 8 * gib, .free = 8 * gib, .left = gib}).limit == gib / 2);
  const budget asked = budget_for(6 * gib, {.size = 8 * gib, .free = 8 * gib, .left = 16 * gib});
  CHECK(asked.limit == 6 * gib);
  CHECK_FALSE(asked.is_less_than_asked);
  const budget less = budget_for(6 * gib, {.size = 8 * gib, .free = 8 * gib, .left = 4 * gib});
  CHECK(less.limit == 4 * gib);
  CHECK(less.is_less_than_asked);
  CHECK(budget_for(gib, {.size = 64 << 20, .free = 64 << 20, .left = {}}).limit == 64 << 20);
}
