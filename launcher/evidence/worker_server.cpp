#include "launcher/evidence/worker_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using stream_protocol = asio::local::stream_protocol;

constexpr std::string_view request_text =
    "POST /handler/fr_trace_json HTTP/1.1\r\n"
    "Host: localhost\r\n"
    "Content-Length: 0\r\n"
    "Connection: close\r\n\r\n";
constexpr std::uint32_t header_bytes_max = 4096;

struct conversation : std::enable_shared_from_this<conversation> {
  conversation(asio::io_context& loop, std::optional<flight_record>& to)
      : socket(loop), answer(to) {
    parser.body_limit(record_bytes_max);
    parser.header_limit(header_bytes_max);
  }

  void start(const std::string& path) {
    boost::system::error_code error;
    const stream_protocol::endpoint where(path);
    socket.open(where.protocol(), error);
    if (!error) socket.non_blocking(true, error);
    // Such a connection is there at once, or refused.
    if (!error) socket.connect(where, error);
    if (error) return;
    asio::async_write(socket, asio::buffer(request_text),
                      [self = shared_from_this()](boost::system::error_code failed, std::size_t) {
                        if (!failed) self->read();
                      });
  }

  void read() {
    http::async_read(socket, received, parser,
                     [self = shared_from_this()](boost::system::error_code failed, std::size_t) {
                       const auto& got = self->parser.get();
                       if (!failed && got.result() == http::status::ok)
                         self->answer = flight_record_of(got.body());
                     });
  }

  stream_protocol::socket socket;
  boost::beast::flat_buffer received;
  http::response_parser<http::string_body> parser;
  std::optional<flight_record>& answer;
};

}  // namespace

std::map<pid_t, flight_record> ask_worker_servers(const std::map<pid_t, std::string>& sockets,
                                                  duration limit) {
  std::map<pid_t, std::optional<flight_record>> answers;
  asio::io_context loop(1);
  for (const auto& [pid, path] : sockets) {
    try {
      std::make_shared<conversation>(loop, answers[pid])->start(path);
    } catch (const boost::system::system_error&) {  // the path is too long, or descriptors lack
    }
  }
  loop.run_for(std::chrono::duration_cast<std::chrono::milliseconds>(limit));
  std::map<pid_t, flight_record> records;
  for (auto& [pid, answer] : answers) {
    if (answer) records.emplace(pid, std::move(*answer));
  }
  return records;
}

}  // namespace ddprun::launcher::evidence
