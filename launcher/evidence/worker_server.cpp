#include "launcher/evidence/worker_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using stream_protocol = asio::local::stream_protocol;

constexpr std::uint32_t header_bytes_max = 4096;

// Recorders of Gloo and of other backends on CPUs.
constexpr std::string_view own_record = "POST /handler/fr_trace_json";
// In PyTorch 2.15 NCCL's backend (nccl2) has a recorder of its own there. Versions before take no
// notice of the question's end, and answer with the other one again; they are told by the list of
// handlers, which has fr_dump_file since each backend has its recorder.
constexpr std::string_view record_of_nccl2 = "POST /handler/fr_trace_json?backend=nccl2";
constexpr std::string_view handlers = "GET /handler/";
constexpr std::string_view sign_of_backends = "\"fr_dump_file\"";
// That of the older backend: the only one before 2.15, where it is "nccl-legacy".
constexpr std::string_view record_of_nccl = "POST /handler/dump_nccl_trace_json";

struct conversation : std::enable_shared_from_this<conversation> {
  using handler = std::function<void(const std::string& body)>;

  conversation(asio::io_context& loop, std::string_view what, handler answered)
      : socket(loop),
        question(std::string(what) +
                 " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        answer(std::move(answered)) {
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
    asio::async_write(socket, asio::buffer(question),
                      [self = shared_from_this()](boost::system::error_code failed, std::size_t) {
                        if (!failed) self->read();
                      });
  }

  void read() {
    http::async_read(socket, received, parser,
                     [self = shared_from_this()](boost::system::error_code failed, std::size_t) {
                       const auto& got = self->parser.get();
                       if (!failed && got.result() == http::status::ok) self->answer(got.body());
                     });
  }

  stream_protocol::socket socket;
  std::string question;
  handler answer;
  boost::beast::flat_buffer received;
  http::response_parser<http::string_body> parser;
};

struct answers_of_one {
  std::optional<flight_record> own;
  std::optional<flight_record> nccl2;
  std::optional<flight_record> nccl;
  bool has_backends = false;
};

void ask_one(asio::io_context& loop, const std::string& path, bool asks_nccl, answers_of_one& to) {
  const auto ask = [&](std::string_view what, conversation::handler answered) {
    std::make_shared<conversation>(loop, what, std::move(answered))->start(path);
  };
  const auto into = [](std::optional<flight_record>& record) {
    return [&record](const std::string& body) { record = flight_record_of(body); };
  };
  ask(own_record, into(to.own));
  if (!asks_nccl) return;
  ask(handlers, [&to](const std::string& body) {
    to.has_backends = body.find(sign_of_backends) != std::string::npos;
  });
  ask(record_of_nccl2, into(to.nccl2));
  ask(record_of_nccl, into(to.nccl));
}

// Both backends may be in one group, and each counts the calls of its own.
std::optional<flight_record> record_in(answers_of_one found) {
  if (found.has_backends && found.nccl2) {
    if (!found.own) found.own.emplace();
    add_record(*found.own, std::move(*found.nccl2), "nccl2 ");
  }
  if (found.nccl) {
    if (!found.own) found.own.emplace();
    add_record(*found.own, std::move(*found.nccl), "nccl ");
  }
  return std::move(found.own);
}

}  // namespace

std::map<pid_t, flight_record> ask_worker_servers(const std::map<pid_t, std::string>& sockets,
                                                  bool asks_nccl, duration limit) {
  std::map<pid_t, answers_of_one> answers;
  asio::io_context loop(1);
  for (const auto& [pid, path] : sockets) {
    try {
      ask_one(loop, path, asks_nccl, answers[pid]);
    } catch (const boost::system::system_error&) {  // the path is too long, or descriptors lack
    }
  }
  loop.run_for(std::chrono::duration_cast<std::chrono::milliseconds>(limit));
  std::map<pid_t, flight_record> records;
  for (auto& [pid, answer] : answers) {
    if (auto record = record_in(std::move(answer))) records.emplace(pid, std::move(*record));
  }
  return records;
}

}  // namespace ddprun::launcher::evidence
