#include "launcher/hosts/doctor/probe_protocol.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;

namespace {

const std::string token(token_bytes, 'a');

std::string all_words() {
  return std::string(probe_greeting) + "t" + "b" + eight_bytes(5) + "12345" + "t";
}

std::string all_answers() {
  return token + eight_bytes(7) + "k" + eight_bytes(7);
}

}  // namespace

TEST_CASE("a conversation at a probe port, in one piece and byte by byte") {
  probe_protocol at_once(token);
  std::string said;
  REQUIRE(at_once.take(all_words(), 7, said));
  CHECK(said == all_answers());
  probe_protocol in_bytes(token);
  std::string answers;
  for (const char byte : all_words())
    REQUIRE(in_bytes.take(std::string(1, byte), 7, answers));
  CHECK(answers == all_answers());
}

TEST_CASE("a stranger at a probe port hears nothing") {
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\n"), std::string("\0", 1),
                                   std::string("ddprun doctor 2\n")}) {
    probe_protocol held(token);
    std::string said;
    CHECK_FALSE(held.take(words, 7, said));
    CHECK(said.empty());
    CHECK_FALSE(held.is_known());
  }
}

TEST_CASE("orders that none of ours gives end a probe") {
  const std::string greeting(probe_greeting);
  for (const std::string& words :
       {greeting + "x", greeting + "b" + eight_bytes(0), greeting + "b" + eight_bytes(~0ULL),
        greeting + std::string(10'000, 't')}) {
    probe_protocol held(token);
    std::string said;
    CHECK_FALSE(held.take(words, 7, said));
    CHECK(said.size() < 70'000);
  }
}

TEST_CASE("numbers of eight bytes") {
  for (const std::uint64_t number : {0ULL, 1ULL, 0x0123456789abcdefULL, ~0ULL})
    CHECK(number_of_eight_bytes(eight_bytes(number)) == number);
  CHECK(eight_bytes(0x0102).substr(0, 2) == "\x02\x01");
}
