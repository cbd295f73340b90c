#include "rendezvous/net/dialer.hpp"

#include "rendezvous/net/resolve.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::net {

struct dialer::attempt : std::enable_shared_from_this<dialer::attempt> {
  attempt(executor where, std::string host_, std::uint16_t port_, handler done_)
      : host(std::move(host_)),
        port(port_),
        done(std::move(done_)),
        timer(where),
        resolving(where),
        socket(where) {}

  std::string host;
  std::uint16_t port;
  handler done;  // null once it was called or cancelled
  asio::steady_timer timer;
  resolver resolving;
  tcp::socket socket;
  endpoints candidates;
  std::size_t next = 0;  // candidate
  std::string failures;  // so far, joined

  void start(duration delay, duration limit) {
    timer.expires_after(delay);
    timer.async_wait([self = shared_from_this(), limit](error_code error) {
      if (!error && self->done) self->begin(limit);
    });
  }

  void begin(duration limit) {
    timer.expires_after(limit);
    timer.async_wait([self = shared_from_this(), limit](error_code error) {
      if (error || !self->done) return;
      self->note_failure("no answer within " + to_text(limit));
      self->give_up();
    });
    // The resolver belongs to this attempt, so a strong capture would keep both for ever.
    resolving.start(host, port,
                    [weak = weak_from_this()](error_code error, const endpoints& found) {
                      const auto self = weak.lock();
                      if (!self || !self->done) return;
                      if (error) {
                        self->failures = "cannot look up " + self->host + ": " + error.message();
                        return self->give_up();
                      }
                      self->candidates = found;
                      self->try_next();
                    });
  }

  void try_next() {
    if (next == candidates.size()) return give_up();
    error_code ignored;
    socket.close(ignored);
    socket.async_connect(candidates[next], [self = shared_from_this()](error_code error) {
      if (self->done) self->connected(error);
    });
  }

  void connected(error_code error) {
    if (!error) {
      // Dialing a free port of the ephemeral range on this host can connect a socket to itself.
      error_code failed;
      if (socket.local_endpoint(failed) == socket.remote_endpoint(failed) || failed) {
        error = failed ? failed : asio::error::connection_refused;
      }
    }
    if (error) {
      note_failure(error.message());
      ++next;
      return try_next();
    }
    timer.cancel();
    dial_result result;
    result.endpoint = candidates[next];
    result.socket = std::move(socket);
    std::exchange(done, nullptr)(std::move(result));
  }

  void note_failure(const std::string& what) {
    if (next >= candidates.size()) {
      failures = what;
      return;
    }
    const std::string name = endpoint_text(candidates[next]);
    // One numeric address needs no name twice.
    const bool is_named = candidates.size() > 1 || name != endpoint_text(host, port);
    if (!failures.empty()) failures += "; ";
    failures += is_named ? name + ": " + what : what;
  }

  void give_up() {
    if (!done) return;
    timer.cancel();
    error_code ignored;
    socket.close(ignored);
    dial_result result;
    result.text = endpoint_text(host, port) + ": " + failures;
    std::exchange(done, nullptr)(std::move(result));
  }
};

void dialer::start(std::string host, std::uint16_t port, duration delay, duration limit,
                   handler done) {
  cancel();
  attempt_ = std::make_shared<attempt>(executor_, std::move(host), port, std::move(done));
  attempt_->start(delay, limit);
}

void dialer::cancel() {
  const auto ending = std::exchange(attempt_, nullptr);
  if (!ending) return;
  ending->done = nullptr;
  ending->timer.cancel();
  ending->resolving.cancel();
  error_code ignored;
  ending->socket.close(ignored);
}

}  // namespace ddprun::net
