#include "launcher/hosts/ssh/order.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <unistd.h>

using namespace ddprun;
using namespace ddprun::launcher::ssh;

namespace {

const order sample_order = {"/data/a folder",
                            {"--nnodes=2", "--", "train.py", "", "two\nlines"},
                            {{"PATH", "/bin"}, {"TEXT", "a=b\nc"}, {"EMPTY", ""}}};

// Reads an order from a pipe with these bytes and an end; `left` gets the bytes after it.
std::optional<order> read_from_pipe(const std::string& bytes, std::string& left) {
  auto ends = make_pipe();
  REQUIRE(ends.has_value());
  REQUIRE(::write(ends->write.get(), bytes.data(), bytes.size()) ==
          static_cast<ssize_t>(bytes.size()));
  ends->write.reset();
  auto read = read_order(ends->read.get());
  char rest[64];
  const ssize_t count = ::read(ends->read.get(), rest, sizeof rest);
  left.assign(rest, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return read;
}

}  // namespace

TEST_CASE("an order arrives as it was sent, and what follows it is left alone") {
  std::string left;
  const auto read = read_from_pipe(encode(sample_order) + "beat\n", left);
  REQUIRE(read.has_value());
  CHECK(read->directory == sample_order.directory);
  CHECK(read->words == sample_order.words);
  CHECK(read->variables == sample_order.variables);
  CHECK(left == "beat\n");
}

TEST_CASE("an order that is cut short is none") {
  const std::string whole = encode(sample_order);
  std::string left;
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    CHECK_FALSE(read_from_pipe(whole.substr(0, bytes), left).has_value());
}

TEST_CASE("what is no order is none") {
  std::string left;
  for (const char* const bytes :
       {"GET / HTTP/1.1\r\n", "ddprun-order 2 3\nabc", "ddprun-order 1 x\n", "ddprun-order 1 -1\n",
        "ddprun-order 1 99999999999999999999\n", "ddprun-order 1 3\nabc"})
    CHECK_FALSE(read_from_pipe(bytes, left).has_value());
  using namespace std::string_literals;
  CHECK(decode_fields("/\0001\0a\0"s).has_value());
  CHECK_FALSE(decode_fields("/\0002\0a\0"s).has_value());  // fewer words than it says
  CHECK_FALSE(decode_fields("/\0001\0a\0novalue\0"s).has_value());
  CHECK_FALSE(decode_fields("/\0001\0a\0=x\0"s).has_value());
}
