#include "launcher/agent/unable_report.hpp"

#include "launcher/agent/own_job.hpp"
#include "launcher/base/random_value.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/net/dialer.hpp"
#include "rendezvous/net/host_name.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>

#include <array>
#include <ctime>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto pause_between_tries = std::chrono::milliseconds(100);

// A node that joins, asks to leave at once, and says goodbye.
std::string bytes_of(const launch_options& options, const std::string& node,
                     const std::string& why) {
  hello words;
  words.version = version;
  words.run_id = options.run_id;
  words.session = random_value<session_id>();
  words.node = node;
  words.node_is_explicit = !options.node_id.empty();
  words.host = net::short_host_name();
  words.worker_count = 1;
  words.node_rank = options.node_rank;
  words.role = options.role;
  say_job(words, own_job(options, node, std::time(nullptr)));
  words.address = options.local_address;
  words.settings = options.settings;
  words.state.seq = 1;
  words.state.draining = true;
  cause unable;
  unable.kind = cause_class::start;
  unable.node = node;
  unable.text = why;
  words.state.causes.push_back(std::move(unable));
  return protocol::encode(agent_message(std::move(words))) +
         protocol::encode(agent_message(goodbye{}));
}

// Sends one report, on a loop of its own.
class teller {
 public:
  teller(cli::endpoint_address endpoint, std::string bytes)
      : endpoint_(std::move(endpoint)), bytes_(std::move(bytes)) {}

  void run() {
    dial();
    context_.run_for(unable_report_limit);
  }

 private:
  // The node that has to open the daemon may be just about to, also on this host.
  void dial() {
    dialer_.start(endpoint_.host, endpoint_.port, {}, unable_report_limit,
                  [this](net::dial_result found) {
                    if (found.socket) return say(std::move(*found.socket));
                    if (clock::now() - began_ >= nobody_there_limit) return;
                    pause_.expires_after(pause_between_tries);
                    pause_.async_wait([this](error_code error) {
                      if (!error) dial();
                    });
                  });
  }

  void say(net::tcp::socket socket) {
    socket_.emplace(std::move(socket));
    boost::asio::async_write(*socket_, boost::asio::buffer(bytes_),
                             [this](error_code error, std::size_t) {
                               if (error) return;
                               socket_->shutdown(net::tcp::socket::shutdown_send, error);
                               await_end();
                             });
  }

  // Closing with an unread answer would reset the connection, which could discard our bytes at a
  // daemon that has not read them yet.
  void await_end() {
    socket_->async_read_some(boost::asio::buffer(answer_), [this](error_code error, std::size_t) {
      if (!error) await_end();
    });
  }

  const cli::endpoint_address endpoint_;
  const std::string bytes_;
  const clock::time_point began_ = clock::now();
  boost::asio::io_context context_{1};
  net::dialer dialer_{context_.get_executor()};
  boost::asio::steady_timer pause_{context_};
  std::optional<net::tcp::socket> socket_;
  std::array<char, 512> answer_{};
};

}  // namespace

void tell_run_unable(const launch_options& options, const std::string& node,
                     const std::string& why) {
  if (options.standalone || options.settings.nodes_max + options.settings.spares_max == 1) return;
  // It is unknown which port is this run's: the first one may be another job's daemon.
  if (!options.more_ports.empty()) return;
  try {
    teller(options.endpoint, bytes_of(options, node, why)).run();
  } catch (
      const boost::system::system_error&) {  // too few descriptors for a connection: nobody is told
  }
}

}  // namespace ddprun::launcher
