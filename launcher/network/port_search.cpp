#include "launcher/network/port_search.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr duration answer_limit = std::chrono::seconds(2);
constexpr duration pause_min = std::chrono::milliseconds(200);
constexpr duration pause_max = std::chrono::seconds(2);
constexpr std::uint32_t header_bytes_max = 8 * 1024;

bool is_unreserved(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '-' || character == '.' ||
         character == '_' || character == '~';
}

std::string in_a_path(const std::string& name) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string path;
  for (const char character : name) {
    const auto byte = static_cast<unsigned char>(character);
    if (is_unreserved(character)) {
      path += character;
    } else {
      path += '%';
      path += digits[byte >> 4];
      path += digits[byte & 15];
    }
  }
  return path;
}

}  // namespace

// The answer or the timeout, whichever comes first, closes the connection and calls `answered`.
struct port_search::question : std::enable_shared_from_this<question> {
  question(net::tcp::socket connected, const std::string& path)
      : stream(std::move(connected)), buffer(header_bytes_max), request(http::verb::get, path, 11) {
    request.set(http::field::host, "ddprun");
    request.keep_alive(false);
    answer.header_limit(header_bytes_max);
  }

  void start() {
    stream.expires_after(answer_limit);
    http::async_write(stream, request, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->failed(error, error.message());
      self->read();
    });
  }

  void read() {
    http::async_read_header(stream, buffer, answer,
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (error) return self->failed(error, "no daemon of ours");
                              const bool is_there = self->answer.get().result() == http::status::ok;
                              self->end(is_there ? "" : "a daemon that does not hold this run");
                            });
  }

  void failed(const error_code& error, const std::string& problem) {
    const bool is_late = error == beast::error::timeout;
    end(is_late ? "no answer for " + to_text(answer_limit) : problem);
  }

  void end(const std::string& problem) {
    stream.close();
    if (const auto tell = std::exchange(answered, nullptr)) tell(problem);
  }

  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  http::request<http::empty_body> request;
  http::response_parser<http::empty_body> answer;            // its head is enough
  std::function<void(const std::string& problem)> answered;  // empty: the run is there
};

port_search::port_search(net::executor where, std::string host, std::vector<std::uint16_t> ports,
                         const std::string& run_id)
    : executor_(where),
      dialer_(where),
      pause_timer_(where),
      host_(std::move(host)),
      ports_(std::move(ports)),
      problems_(ports_.size()),
      path_("/api/v1/runs/" + in_a_path(run_id) + "?limit=1") {}

port_search::~port_search() {
  stop();
}

void port_search::start(duration limit, handler found) {
  found_ = std::move(found);
  give_up_ = std::chrono::steady_clock::now() + limit;
  pause_ = pause_min;
  at_ = 0;
  ask();
}

void port_search::stop() {
  found_ = nullptr;
  dialer_.cancel();
  pause_timer_.cancel();
  lifetime_.begin_anew();
  if (const auto asked = std::exchange(question_, nullptr)) {
    asked->answered = nullptr;
    asked->end({});
  }
}

void port_search::ask() {
  dialer_.start(host_, ports_[at_], {}, answer_limit, [this](net::dial_result result) {
    if (!result.socket) return answered(result.text);
    question_ = std::make_shared<question>(std::move(*result.socket), path_);
    question_->answered = while_alive(lifetime_.watch(), [this](const std::string& problem) {
      question_.reset();
      answered(problem);
    });
    question_->start();
  });
}

void port_search::answered(const std::string& problem) {
  if (problem.empty()) return end(ports_[at_], {});
  problems_[at_] = problem;
  next();
}

void port_search::next() {
  const auto now = std::chrono::steady_clock::now();
  if (now >= give_up_) {
    std::string text;
    for (std::size_t index = 0; index < ports_.size(); ++index) {
      if (problems_[index].empty()) continue;
      text += (text.empty() ? "" : "; ") + std::to_string(ports_[index]) + ": " + problems_[index];
    }
    return end(0, text);
  }
  at_ = (at_ + 1) % ports_.size();
  if (at_ != 0) return ask();
  pause_timer_.expires_after(std::min<duration>(pause_, give_up_ - now));
  pause_ = std::min<duration>(pause_ * 2, pause_max);
  pause_timer_.async_wait(while_alive(lifetime_.watch(), [this](error_code cancelled) {
    if (!cancelled) ask();
  }));
}

void port_search::end(std::uint16_t port, std::string problem) {
  const handler tell = std::exchange(found_, nullptr);
  stop();
  if (tell) tell(port, std::move(problem));
}

}  // namespace ddprun::launcher
