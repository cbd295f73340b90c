// Slurm's compressed lists, and the order of node names.
#include "launcher/hosts/slurm/node_list.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>

namespace ddprun::launcher::slurm {
namespace {

using names = std::vector<std::string>;
using counts = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("a compressed list of Slurm's has each name of it") {
  CHECK(expand_node_list("n1") == names{"n1"});
  CHECK(expand_node_list("n[1-3]") == names{"n1", "n2", "n3"});
  CHECK(expand_node_list("n[001-003,007],gpu5") == names{"n001", "n002", "n003", "n007", "gpu5"});
  CHECK(expand_node_list("n[99-101]") == names{"n99", "n100", "n101"});
  CHECK(expand_node_list("n[5,05,005]") == names{"n5", "n05", "n005"});
  CHECK(expand_node_list("n[08-11]-ib") == names{"n08-ib", "n09-ib", "n10-ib", "n11-ib"});
  CHECK(expand_node_list("r[1-2]n[3-4]") == names{"r1n3", "r1n4", "r2n3", "r2n4"});
  CHECK(expand_node_list("n10,n2,n10") == names{"n10", "n2", "n10"});
  CHECK(expand_node_list("a,,b") == names{"a", "b"});
  CHECK(expand_node_list("")->empty());
}

TEST_CASE("what is no list of Slurm's is none, however long it would be") {
  for (const char* const text :
       {"n[", "n]", "n[1", "n1]", "n[]", "n[a-b]", "n[3-1]", "n[1,,2]", "n[1--3]", "n[-1]", "n[1-]",
        "n[1]]", "n[[1]]", "n[0-99999999999999999999]", "n[0-4294967295]", "n[1-60000]m[1-60000]",
        "n[1-40000],m[1-40000]"}) {
    INFO(text);
    CHECK_FALSE(expand_node_list(text));
  }
  CHECK(expand_node_list("n[1-65536]")->size() == 65'536);
}

TEST_CASE("counts come once for each node") {
  CHECK(expand_counts("2(x3),1") == counts{2, 2, 2, 1});
  CHECK(expand_counts("16") == counts{16});
  CHECK(expand_counts("4,2(x2)") == counts{4, 2, 2});
  for (const char* const text :
       {"", ",", "x", "2(", "2(x", "2(x)", "2(x3", "2(3)", "2(xa)", "-1", "1,", "1(x4294967295)"}) {
    INFO(text);
    CHECK_FALSE(expand_counts(text));
  }
}

TEST_CASE("nodes are in the order of their numbers") {
  names found = {"node10", "node2", "gpu1", "node1", "node02", "r2n1", "r1n10", "r1n9", "node"};
  std::sort(found.begin(), found.end(), is_before);
  CHECK(found ==
        names{"gpu1", "node", "node1", "node02", "node2", "node10", "r1n9", "r1n10", "r2n1"});
  CHECK_FALSE(is_before("n1", "n1"));
  // Larger than any integer type.
  CHECK(is_before("n99999999999999999999998", "n99999999999999999999999"));
}

}  // namespace ddprun::launcher::slurm
