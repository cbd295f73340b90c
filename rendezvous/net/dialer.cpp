#include "rendezvous/net/dialer.hpp"

#include <boost/asio/detail/socket_option.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <deque>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <utility>

namespace ddprun::net {
namespace {

bool contains(const endpoints& all, const tcp::endpoint& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// If the port is in this host's ephemeral range and nothing listens there, connecting can pick that
// port as the source and connect the socket to itself. That is refused.
error_code refusal_of_self(const tcp::socket& socket) {
  error_code failed;
  const bool same = socket.local_endpoint(failed) == socket.remote_endpoint(failed);
  if (failed) return failed;
  return same ? error_code(asio::error::connection_refused) : error_code();
}

using segment_max = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_MAXSEG>;

}  // namespace

struct dialer::attempt : std::enable_shared_from_this<dialer::attempt> {
  attempt(executor where_, std::string name_, handler done_)
      : where(where_),
        name(std::move(name_)),
        done(std::move(done_)),
        timer(where_),
        next_timer(where_) {}

  struct candidate {
    candidate(const executor& where, const tcp::endpoint& to) : endpoint(to), socket(where) {}
    tcp::endpoint endpoint;
    tcp::socket socket;
    std::string failure;  // empty: under way, or not tried yet
  };

  executor where;
  std::string name;  // "node-a:29400", for messages
  handler done;      // null once it was called or cancelled
  asio::steady_timer timer;
  asio::steady_timer next_timer;
  std::deque<candidate> candidates;  // in the order in which they are tried
  std::size_t tried = 0;
  std::size_t under_way = 0;
  int segment_bytes_max = 0;
  bool begun = false;

  void start(duration delay, std::function<void()> begin) {
    timer.expires_after(delay);
    timer.async_wait([self = shared_from_this(), begin = std::move(begin)](error_code error) {
      if (!error && self->done) begin();
    });
  }

  void begin(duration limit) {
    begun = true;
    timer.expires_after(limit);
    timer.async_wait([self = shared_from_this(), limit](error_code error) {
      if (!error && self->done) self->out_of_time(limit);
    });
  }

  // May be called again: a look-up that ends later adds what it found.
  void add(const endpoints& found) {
    if (!done || !begun) return;
    const std::size_t before = candidates.size();
    for (const tcp::endpoint& each : found) {
      const bool known = std::any_of(candidates.begin(), candidates.end(),
                                     [&](const candidate& one) { return one.endpoint == each; });
      if (!known) candidates.emplace_back(where, each);
    }
    if (candidates.size() != before) try_next();
  }

  void try_next() {
    if (tried == candidates.size()) return;
    const std::size_t index = tried++;
    ++under_way;
    if (segment_bytes_max > 0) limit_segments(candidates[index]);
    candidates[index].socket.async_connect(candidates[index].endpoint,
                                           [self = shared_from_this(), index](error_code error) {
                                             if (self->done) self->connected(index, error);
                                           });
    // A path that drops packets does not answer, so the next address is tried beside this one.
    next_timer.expires_after(next_address_after);
    next_timer.async_wait([self = shared_from_this()](error_code error) {
      if (!error && self->done) self->try_next();
    });
  }

  // The MSS is negotiated in the handshake, so it must be set before connect, which will report
  // any error again.
  void limit_segments(candidate& one) {
    error_code ignored;
    one.socket.open(one.endpoint.protocol(), ignored);
    one.socket.set_option(segment_max(segment_bytes_max), ignored);
  }

  void connected(std::size_t index, error_code error) {
    candidate& one = candidates[index];
    --under_way;
    if (!error) error = refusal_of_self(one.socket);
    if (error) {
      one.failure = error.message();
      error_code ignored;
      one.socket.close(ignored);
      try_next();
      // try_next() has begun another attempt, unless none is left. A look-up that is still under
      // way is not waited for, so that the caller can try again soon.
      if (under_way == 0) fail();
      return;
    }
    dial_result result;
    result.endpoint = one.endpoint;
    result.socket = std::move(one.socket);
    const handler told = std::exchange(done, nullptr);
    end();
    told(std::move(result));
  }

  void out_of_time(duration limit) {
    const std::string failure = "no answer within " + to_text(limit);
    if (candidates.empty()) return fail("cannot look up the name: " + failure);
    for (candidate& one : candidates) {
      if (one.failure.empty()) one.failure = failure;
    }
    fail();
  }

  void fail() {
    std::string text;
    for (const candidate& one : candidates) {
      const std::string own = endpoint_text(one.endpoint);
      // Do not print the address twice if it is the name.
      const bool is_named = candidates.size() > 1 || own != name;
      text += (text.empty() ? "" : "; ") + (is_named ? own + ": " : "") + one.failure;
    }
    fail(text);
  }

  void fail(const std::string& text) {
    const handler told = std::exchange(done, nullptr);
    end();
    dial_result result;
    result.text = name + ": " + text;
    told(std::move(result));
  }

  void end() {
    done = nullptr;
    timer.cancel();
    next_timer.cancel();
    error_code ignored;
    for (candidate& one : candidates)
      one.socket.close(ignored);
  }
};

void dialer::start(std::string host, std::uint16_t port, duration delay, duration limit,
                   handler done) {
  cancel();
  if (host != host_ || port != port_) {
    resolver_.cancel();
    looking_ = false;
    known_.clear();
    host_ = std::move(host);
    port_ = port;
  }
  attempt_ = std::make_shared<attempt>(executor_, endpoint_text(host_, port_),
                                       [this, done = std::move(done)](dial_result result) {
                                         if (result.socket) remember(result.endpoint);
                                         done(std::move(result));
                                       });
  attempt_->segment_bytes_max = segment_bytes_max_;
  attempt_->start(delay, [this, limit] { begin(limit); });
}

void dialer::begin(duration limit) {
  attempt_->begin(limit);
  // The known addresses are tried at once, while the name is looked up again: the peer may have
  // moved.
  attempt_->add(known_);
  look_up();
}

void dialer::look_up() {
  // A look-up outlives its attempt: a name service that takes longer than `limit` still serves the
  // next one.
  if (std::exchange(looking_, true)) return;
  resolver_.start(host_, port_, [this](error_code error, const endpoints& found) {
    looking_ = false;
    looked_up(error, found);
  });
}

void dialer::looked_up(error_code error, const endpoints& found) {
  const auto held = attempt_;
  if (error) {
    // If addresses are known, the attempt goes on with these.
    if (known_.empty() && held && held->done && held->begun) {
      held->fail("cannot look up " + host_ + ": " + error.message());
    }
    return;
  }
  // The address that answered last stays first, as long as the name still resolves to it.
  endpoints fresh;
  for (const tcp::endpoint& each : known_) {
    if (contains(found, each)) fresh.push_back(each);
  }
  for (const tcp::endpoint& each : found) {
    if (!contains(fresh, each)) fresh.push_back(each);
  }
  known_ = std::move(fresh);
  if (held) held->add(known_);
}

void dialer::remember(const tcp::endpoint& answered) {
  const auto found = std::find(known_.begin(), known_.end(), answered);
  if (found != known_.end()) std::rotate(known_.begin(), found, found + 1);
}

void dialer::distrust(const tcp::endpoint& stranger) {
  const auto found = std::find(known_.begin(), known_.end(), stranger);
  if (found != known_.end()) std::rotate(found, found + 1, known_.end());
}

void dialer::cancel() {
  if (const auto ending = std::exchange(attempt_, nullptr)) ending->end();
}

}  // namespace ddprun::net
