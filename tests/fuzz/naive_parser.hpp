// A second parser of TCPStore requests, written directly from the description of the wire format,
// without the table, the state and the views of protocol/tcpstore.hpp. Both must have the same
// result.
#pragma once

#include "rendezvous/protocol/tcpstore.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::fuzz {

struct naive_request {
  protocol::tcpstore::opcode code = protocol::tcpstore::opcode::validate;
  std::vector<std::string> strings;
  std::int64_t number = 0;
};

struct naive_parsed {
  enum class outcome { complete, incomplete, failed } what = outcome::incomplete;
  naive_request request;  // when complete
  std::size_t bytes = 0;  // of the request, when complete
  errc error = errc::success;
};

// Reads the request at the start of `bytes`.
naive_parsed naive_parse(std::string_view bytes);

}  // namespace ddprun::fuzz
