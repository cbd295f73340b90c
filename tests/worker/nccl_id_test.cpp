#include "worker/nccl_id.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <initializer_list>

using namespace ddprun::worker;

namespace {

// The layout of NCCL 2.30.7: the magic number, then a socket address.
nccl_id id_of(std::initializer_list<unsigned char> bytes) {
  nccl_id id{};
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

}  // namespace

TEST_CASE("an id is written without the zeros at its end") {
  CHECK(nccl_id_text(id_of({0x0c, 0xc4, 0, 0x5d})) == "0cc4005d");
  CHECK(nccl_id_text(nccl_id{}).empty());
  nccl_id full{};
  full.fill('\xff');
  CHECK(nccl_id_text(full) == std::string(2 * nccl_id_bytes, 'f'));
}

TEST_CASE("an id is read as it was written, and nothing else is one") {
  const nccl_id id = id_of({0x0c, 0xc4, 0, 0x5d});
  CHECK(nccl_id_from("0cc4005d") == id);
  CHECK(nccl_id_from(std::string(2 * nccl_id_bytes, 'f')));
  for (const std::string& text :
       {std::string(), std::string("0"), std::string("0g"), std::string("0C"), std::string("0c "),
        std::string(2 * nccl_id_bytes + 2, 'f')}) {
    INFO(text);
    CHECK_FALSE(nccl_id_from(text));
  }
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
