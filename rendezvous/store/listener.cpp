#include "rendezvous/store/listener.hpp"

#include "rendezvous/store/session.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>

#include <utility>

namespace ddprun::store {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int backlog = 4096;
constexpr auto descriptor_pause = std::chrono::milliseconds(100);

bool out_of_resources(const error_code& error) {
  return error == asio::error::no_descriptors || error == asio::error::no_memory ||
         error == asio::error::no_buffer_space ||
         error == boost::system::errc::too_many_files_open_in_system;
}

}  // namespace

struct listener::state : std::enable_shared_from_this<state> {
  state(asio::any_io_executor executor, keyspace_options given)
      : options(std::move(given)),
        acceptor(executor),
        pause(executor),
        space(std::make_shared<keyspace>(options)) {}

  error_code listen(const tcp::endpoint& endpoint, bool both_families);
  void accept();
  void on_accept(const error_code& error, tcp::socket socket);

  keyspace_options options;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::shared_ptr<keyspace> space;
  bool out_of_descriptors = false;
};

error_code listener::state::listen(const tcp::endpoint& endpoint, bool both_families) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error && both_families) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(backlog, error);
  if (error) {
    error_code ignored;
    acceptor.close(ignored);
  }
  return error;
}

void listener::state::accept() {
  acceptor.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
    self->on_accept(error, std::move(socket));
  });
}

void listener::state::on_accept(const error_code& error, tcp::socket socket) {
  if (!acceptor.is_open()) return;
  if (out_of_resources(error)) {
    if (!std::exchange(out_of_descriptors, true)) {
      space->log(note_level::error,
                 "store: cannot accept connections: " + error.message() +
                     "; trying again (raise the limit of open files: ulimit -n)");
    }
    pause.expires_after(descriptor_pause);
    pause.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled && self->acceptor.is_open()) self->accept();
    });
    return;
  }
  // Any other error is of the one connection, which is gone already.
  if (!error) {
    out_of_descriptors = false;
    start_session(std::move(socket), space);
  }
  accept();
}

listener::listener(asio::any_io_executor executor, keyspace_options options)
    : state_(std::make_shared<state>(std::move(executor), std::move(options))) {}

listener::~listener() {
  if (!state_->acceptor.is_open()) return;
  error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  state_->space->cut();
}

error_code listener::open(const std::string& address, std::uint16_t port) {
  error_code error;
  if (address.empty()) {
    error = state_->listen(tcp::endpoint(tcp::v6(), port), true);
    // A host without IPv6.
    if (error == asio::error::address_family_not_supported) {
      error = state_->listen(tcp::endpoint(tcp::v4(), port), false);
    }
  } else {
    const asio::ip::address numeric = asio::ip::make_address(address, error);
    if (error) return errc::invalid_argument;
    error = state_->listen(tcp::endpoint(numeric, port), false);
  }
  if (!error) state_->accept();
  return error;
}

std::uint16_t listener::port() const {
  error_code error;
  const tcp::endpoint local = state_->acceptor.local_endpoint(error);
  return error ? 0 : local.port();
}

keyspace& listener::space() const {
  return *state_->space;
}

void listener::renew() {
  const auto old = std::exchange(state_->space, std::make_shared<keyspace>(state_->options));
  old->cut();
}

void listener::close(duration linger, std::function<void()> closed) {
  error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  const auto space = state_->space;
  const auto limit = std::make_shared<asio::steady_timer>(state_->pause.get_executor(), linger);
  limit->async_wait([space, limit](error_code cancelled) {
    if (!cancelled) space->cut();
  });
  space->finish();
  space->when_empty([limit, closed = std::move(closed)] {
    limit->cancel();
    if (closed) closed();
  });
}

}  // namespace ddprun::store
