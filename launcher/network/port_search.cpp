#include "launcher/network/port_search.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr duration answer_limit = std::chrono::seconds(2);
constexpr duration pause_min = std::chrono::milliseconds(200);
constexpr duration pause_max = std::chrono::seconds(2);
constexpr std::size_t status_line_max = 256;

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

// Whichever ends first, the answer or the timer, closes the socket and tells.
struct port_search::question : std::enable_shared_from_this<question> {
  question(net::tcp::socket connected, std::string words)
      : socket(std::move(connected)), limit(socket.get_executor()), request(std::move(words)) {}

  void start() {
    limit.expires_after(answer_limit);
    limit.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->end("no answer for " + to_text(answer_limit));
    });
    boost::asio::async_write(socket, boost::asio::buffer(request),
                             [self = shared_from_this()](error_code error, std::size_t) {
                               if (error) return self->end(error.message());
                               self->read();
                             });
  }

  void read() {
    boost::asio::async_read_until(
        socket, boost::asio::dynamic_buffer(line, status_line_max), '\n',
        [self = shared_from_this()](error_code error, std::size_t) {
          if (error) return self->end("no daemon of ours");
          const bool is_http = self->line.starts_with("HTTP/1.");
          if (!is_http) return self->end("no daemon of ours");
          self->end(self->line.find(" 200 ") == 8 ? "" : "a daemon that does not hold this run");
        });
  }

  void end(const std::string& problem) {
    limit.cancel();
    error_code ignored;
    socket.close(ignored);
    if (const auto tell = std::exchange(answered, nullptr)) tell(problem);
  }

  net::tcp::socket socket;
  boost::asio::steady_timer limit;
  std::string request;
  std::string line;
  std::function<void(const std::string& problem)> answered;  // empty text: the run is there
};

port_search::port_search(net::executor where, std::string host, std::vector<std::uint16_t> ports,
                         const std::string& run_id)
    : executor_(where),
      dialer_(where),
      pause_timer_(where),
      host_(std::move(host)),
      ports_(std::move(ports)),
      problems_(ports_.size()),
      request_("GET /api/v1/runs/" + in_a_path(run_id) +
               "?limit=1 HTTP/1.1\r\nHost: ddprun\r\nConnection: close\r\n\r\n") {}

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
    question_ = std::make_shared<question>(std::move(*result.socket), request_);
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
