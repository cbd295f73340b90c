#include "launcher/hosts/doctor/probe_server.hpp"

#include "launcher/hosts/doctor/probe_protocol.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>

namespace ddprun::launcher::doctor {
struct probe_server::guest {
  guest(net::tcp::socket accepted, const std::string& token)
      : socket(std::move(accepted)), timer(socket.get_executor()), words(token) {}
  net::tcp::socket socket;
  boost::asio::steady_timer timer;
  probe_protocol words;
  std::array<char, 64 * 1024> bytes{};
  std::string answer;
};

probe_server::probe_server(std::string token, limits bounds)
    : token_(std::move(token)), limits_(bounds) {}

probe_server::~probe_server() {
  thread_.stop();
}

bool probe_server::start(std::size_t count, std::string& problem) {
  while (ports_.size() < count) {
    listeners_.emplace_back(thread_.executor());
    const result<std::uint16_t> port = listeners_.back().open("", 0, problem);
    if (!port) return false;
    ports_.push_back(*port);
  }
  if (const error_code error = thread_.start()) {
    problem = "no thread for the probe ports: " + error.message();
    return false;
  }
  boost::asio::post(thread_.context(), [this] {
    for (net::listener& each : listeners_)
      each.start({[this](net::tcp::socket socket) { accept(std::move(socket)); }, {}});
  });
  return true;
}

bool probe_server::make_room() {
  if (guests_.size() < limits_.guests_max) return true;
  const auto stranger = std::find_if(guests_.begin(), guests_.end(),
                                     [](const auto& each) { return !each->words.is_known(); });
  if (stranger == guests_.end()) return false;
  end(std::shared_ptr<guest>(*stranger));
  return true;
}

void probe_server::accept(net::tcp::socket socket) {
  if (!make_room()) return;
  error_code ignored;
  socket.set_option(net::tcp::no_delay(true), ignored);
  guests_.push_back(std::make_shared<guest>(std::move(socket), token_));
  read(guests_.back());
}

void probe_server::end(const std::shared_ptr<guest>& who) {
  error_code ignored;
  who->socket.close(ignored);
  who->timer.cancel();
  guests_.remove(who);
}

void probe_server::read(const std::shared_ptr<guest>& who) {
  who->timer.expires_after(limits_.silence_max);
  who->timer.async_wait([this, who](error_code cancelled) {
    if (!cancelled) end(who);
  });
  who->socket.async_read_some(boost::asio::buffer(who->bytes),
                              [this, who](error_code error, std::size_t size) {
                                if (error == boost::asio::error::operation_aborted) return;
                                const std::string_view bytes(who->bytes.data(), size);
                                if (error || !who->words.take(bytes, wall_clock(), who->answer))
                                  return end(who);
                                who->answer.empty() ? read(who) : write(who);
                              });
}

void probe_server::write(const std::shared_ptr<guest>& who) {
  boost::asio::async_write(who->socket, boost::asio::buffer(who->answer),
                           [this, who](error_code error, std::size_t) {
                             if (error == boost::asio::error::operation_aborted) return;
                             if (error) return end(who);
                             who->answer.clear();
                             read(who);
                           });
}

}  // namespace ddprun::launcher::doctor
