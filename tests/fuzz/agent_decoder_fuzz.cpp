// Lines of the agent protocol, from bytes that are cut anywhere: what is decoded is encoded and
// decoded again, with the same result; what is refused is refused with a sentence that can be sent.
//
// The input: a byte for the size of the pieces, then the bytes of the connection.
#include "rendezvous/protocol/agent_protocol.hpp"
#include "rendezvous/protocol/line_reader.hpp"
#include "rendezvous/protocol/sniff.hpp"
#include "tests/fuzz/input.hpp"

#include <string>
#include <vector>

namespace {

using namespace ddprun::protocol;
using ddprun::errc;

template <typename Decode>
void check_line(std::string_view line, Decode decode) {
  std::string problem;
  const auto message = decode(line, &problem);
  if (!message) {
    const auto error = message.error();
    FUZZ_CHECK(error == errc::malformed_message || error == errc::message_too_long ||
               error == errc::unknown_message || error == errc::version_mismatch);
    FUZZ_CHECK(!problem.empty());
    const std::string told =
        encode(ddprun::daemon_message(ddprun::refused{ddprun::refused_exit_code, problem}));
    FUZZ_CHECK(told.size() <= ddprun::line_bytes_max);
    FUZZ_CHECK(decode_daemon_message(std::string_view(told).substr(0, told.size() - 1)));
    return;
  }
  const std::string written = encode(*message);
  FUZZ_CHECK(written.ends_with('\n'));
  FUZZ_CHECK(written.find('\n') == written.size() - 1);
  FUZZ_CHECK(written.size() <= ddprun::line_bytes_max);
  const auto again = decode(std::string_view(written).substr(0, written.size() - 1), &problem);
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(encode(*again) == written);
}

void check_all(std::string_view line) {
  check_line(line, decode_agent_message);
  check_line(line, decode_daemon_message);
  check_line(line, decode_tether_reply);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::input from(data, size);
  const std::size_t piece = 1 + from.byte();
  const std::string_view all = from.rest();
  FUZZ_CHECK(sniff(all.substr(0, sniff_bytes_max)) != wire::undecided ||
             all.size() < sniff_bytes_max);
  // Small, so that inputs exceed it.
  constexpr std::size_t bytes_max = 2048;
  line_reader reader(bytes_max);
  std::string seen;
  for (std::size_t begin = 0; begin < all.size(); begin += piece) {
    reader.append(all.substr(begin, piece));
    while (const auto line = reader.next()) {
      FUZZ_CHECK(line->size() < bytes_max);
      FUZZ_CHECK(line->find('\n') == std::string_view::npos);
      check_all(*line);
      seen += *line;
      if (all.substr(seen.size(), 1) == "\r") seen += '\r';
      seen += '\n';
      FUZZ_CHECK(all.starts_with(seen));
    }
    FUZZ_CHECK(reader.too_long() || seen + std::string(reader.unfinished()) ==
                                        all.substr(0, std::min(all.size(), begin + piece)));
    if (reader.too_long()) {
      const std::size_t end = all.find('\n', seen.size());
      FUZZ_CHECK((end == std::string_view::npos ? all.size() : end) - seen.size() >= bytes_max - 1);
      return 0;
    }
  }
  return 0;
}
