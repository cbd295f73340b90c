// The bytes of one TCPStore connection, cut anywhere, compared with the naive parser.
//
// The input: a byte n, then n bytes that say how many bytes each piece has (the last one repeats),
// then the bytes of the connection.
#include "rendezvous/protocol/tcpstore.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/naive_parser.hpp"

#include <memory>
#include <string>
#include <vector>

namespace {

namespace wire = ddprun::protocol::tcpstore;
using ddprun::fuzz::naive_parse;
using ddprun::fuzz::naive_parsed;
using ddprun::fuzz::naive_request;
using outcome = wire::request_parser::outcome;

void check_equal(const wire::request& parsed, const naive_request& naive) {
  FUZZ_CHECK(parsed.code == naive.code);
  FUZZ_CHECK(parsed.number == naive.number);
  FUZZ_CHECK(parsed.size() == naive.strings.size());
  for (std::size_t index = 0; index < parsed.size(); ++index) {
    FUZZ_CHECK(parsed[index] == naive.strings[index]);
  }
}

void check_written_as_read(const naive_request& request, std::string_view bytes) {
  const std::vector<std::string_view> strings(request.strings.begin(), request.strings.end());
  std::string written;
  wire::append_request(written, request.code, strings, request.number);
  FUZZ_CHECK(written == bytes);
}

// A copy of exactly these bytes, so that a sanitizer notices a read beyond them.
std::unique_ptr<char[]> exactly(std::string_view bytes) {
  std::unique_ptr<char[]> copy(new char[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return copy;
}

// The naive parser's result for `bytes` shows whether the parser was right to want so many.
void check_wanted(std::size_t wanted, std::string_view come, std::string_view all) {
  FUZZ_CHECK(wanted > come.size());
  FUZZ_CHECK(wanted <= wire::request_bytes_max + sizeof(std::int64_t));
  const naive_parsed naive = naive_parse(all);
  if (naive.what == naive_parsed::outcome::complete) FUZZ_CHECK(wanted <= naive.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::input from(data, size);
  const std::string_view pieces = from.bytes(from.byte());
  std::string_view all = from.rest();
  wire::request_parser parser;
  std::size_t piece = 0;
  std::size_t come = 0;
  while (come < all.size()) {
    const std::size_t more =
        pieces.empty() ? all.size()
                       : static_cast<std::uint8_t>(pieces[std::min(piece++, pieces.size() - 1)]);
    come = std::min(all.size(), come + std::max<std::size_t>(more, 1));
    for (bool again = true; again;) {
      const std::string_view here = all.substr(0, come);
      const auto copy = exactly(here);
      wire::request parsed;
      const outcome now = parser.parse({copy.get(), here.size()}, parsed);
      const naive_parsed naive = naive_parse(here);
      FUZZ_CHECK(static_cast<int>(now) == static_cast<int>(naive.what));
      if (now == outcome::failed) {
        FUZZ_CHECK(parser.error() == naive.error);
        return 0;
      }
      if (now == outcome::incomplete) {
        check_wanted(parser.bytes_wanted(), here, all);
        break;
      }
      FUZZ_CHECK(parser.consumed() == naive.bytes);
      check_equal(parsed, naive.request);
      check_written_as_read(naive.request, here.substr(0, naive.bytes));
      all.remove_prefix(naive.bytes);
      come -= naive.bytes;
      again = come != 0;
    }
  }
  return 0;
}
