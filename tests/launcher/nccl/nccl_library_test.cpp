#include "launcher/nccl/nccl_library.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// As NCCL 2.30.7 lays it out: magic, then a socket's address.
nccl_id id_of(std::initializer_list<unsigned char> bytes) {
  nccl_id id{};
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

}  // namespace

TEST_CASE("an id is written without the zeros at its end") {
  CHECK(to_text(id_of({0x0c, 0xc4, 0, 0x5d})) == "0cc4005d");
  CHECK(to_text(nccl_id{}).empty());
  nccl_id full{};
  full.fill(0xff);
  CHECK(to_text(full) == std::string(2 * nccl_id_bytes, 'f'));
}

TEST_CASE("an id tells where its ranks meet") {
  CHECK(address_of(id_of({1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0xa1, 0x11, 10, 0, 0, 1})) ==
        "10.0.0.1:41233");
  nccl_id sixth =
      id_of({1, 2, 3, 4, 5, 6, 7, 8, 10, 0, 0xa1, 0x11, 0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8});
  sixth[31] = 1;
  CHECK(address_of(sixth) == "[2001:db8::1]:41233");
  CHECK(address_of(nccl_id{}).empty());
}

TEST_CASE("what is no NCCL is named") {
  std::string problem;
  const test::temporary_folder folder;
  const std::string path = folder.file("libnccl.so.2", "no library", 0600);
  CHECK_FALSE(nccl_library::open(path, problem));
  CHECK(problem.find("NCCL cannot be loaded: ") == 0);
  CHECK(problem.find(path) != std::string::npos);
  CHECK_FALSE(nccl_library::open("libc.so.6", problem));
  CHECK(problem.find("libc.so.6: that is not NCCL: ") == 0);
}
