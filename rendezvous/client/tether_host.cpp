#include "rendezvous/client/tether_host.hpp"

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <utility>
#include <variant>

namespace ddprun::client {
namespace {

constexpr duration goodbye_limit = std::chrono::seconds(1);

}  // namespace

struct tether_host::tether {
  std::shared_ptr<net::line_connection> connection;
  boost::asio::steady_timer first_line;
  bool attached = false;
};

tether_host::tether_host(handlers told, limits bounds)
    : handlers_(std::make_shared<const tether_host::handlers>(std::move(told))), limits_(bounds) {}

tether_host::tether_host(handlers told) : tether_host(std::move(told), limits{}) {}

tether_host::~tether_host() {
  drop_all();
}

void tether_host::accept(net::tcp::socket socket) {
  // Only a connection without a hello may be closed to make room; tethers of members stay.
  if (tethers_.size() >= limits_.tethers_max && !end_oldest_stranger()) return;
  const std::string refusal = lets_in_others_ ? "" : users_.refusal(socket);
  const std::uint64_t id = ++last_id_;
  const net::executor where = socket.get_executor();
  net::line_handlers events;
  events.on_line = [this, id](std::string_view line) { take_line(id, line); };
  events.on_end = [this, id](error_code error) { end(id, error.message()); };
  auto connection =
      std::make_shared<net::line_connection>(std::move(socket), std::move(events), limits_.stall);
  auto entry = std::make_unique<tether>(tether{connection, boost::asio::steady_timer(where)});
  entry->first_line.expires_after(limits_.first_line);
  entry->first_line.async_wait(
      while_alive(std::weak_ptr(connection), [this, id, &held = *connection](error_code error) {
        // The tether has ended while this handler was queued, so the host may be gone.
        if (error || !held.is_open()) return;
        end(id, "no hello within " + to_text(limits_.first_line));
      }));
  tethers_.emplace(id, std::move(entry));
  connection->start();
  if (!refusal.empty()) reject(id, refusal);
}

void tether_host::take_line(std::uint64_t id, std::string_view line) {
  const auto found = tethers_.find(id);
  if (found == tethers_.end()) return;
  std::string problem;
  const auto message = protocol::decode_agent_message(line, &problem);
  if (!message) return reject(id, problem);
  tether& entry = *found->second;
  if (const auto* hello = std::get_if<tether_hello>(&*message); hello && !entry.attached) {
    // A copy of the handlers, because the callback may destroy this host.
    entry.attached = true;
    entry.first_line.cancel();
    const auto told = handlers_;
    return told->attached(id, *hello);
  }
  if (const auto* beat = std::get_if<tether_beat>(&*message); beat && entry.attached) {
    const auto told = handlers_;
    return told->beat(id, *beat);
  }
  reject(id, "a tether says tether_hello once and tether_beat from then on");
}

// Refuses a peer that has broken the protocol.
void tether_host::reject(std::uint64_t id, const std::string& what) {
  const bool attached = tethers_.at(id)->attached;
  refuse(id, what);
  const auto told = handlers_;
  if (attached) return told->detached(id);
  if (told->stranger) told->stranger("a tether was refused: " + what);
}

void tether_host::end(std::uint64_t id, const std::string& what) {
  const auto found = tethers_.find(id);
  if (found == tethers_.end()) return;
  const bool attached = found->second->attached;
  const auto connection = remove(id);
  const std::string peer = connection->peer_address();
  connection->close();
  const auto told = handlers_;
  if (attached) return told->detached(id);
  if (told->stranger) told->stranger("a tether from " + peer + " ended: " + what);
}

bool tether_host::end_oldest_stranger() {
  const auto oldest = std::find_if(tethers_.begin(), tethers_.end(),
                                   [](const auto& one) { return !one.second->attached; });
  if (oldest == tethers_.end()) return false;
  end(oldest->first, "it had sent no hello, and another connection needed the room");
  return true;
}

std::shared_ptr<net::line_connection> tether_host::remove(std::uint64_t id) {
  const auto found = tethers_.find(id);
  if (found == tethers_.end()) return nullptr;
  const auto connection = found->second->connection;
  found->second->first_line.cancel();
  tethers_.erase(found);
  return connection;
}

void tether_host::answer(std::uint64_t id, std::uint64_t seq) {
  const auto found = tethers_.find(id);
  if (found != tethers_.end()) send(*found->second->connection, tether_ack{seq});
}

void tether_host::refuse(std::uint64_t id, const std::string& text) {
  if (const auto connection = remove(id)) {
    send(*connection, refused{refused_exit_code, text});
    connection->finish(goodbye_limit);
  }
}

void tether_host::send(net::line_connection& connection, const tether_reply& reply) {
  connection.send(reply.index(), std::make_shared<const std::string>(protocol::encode(reply)));
}

void tether_host::drop_all() {
  const auto dropped = std::exchange(tethers_, {});
  for (const auto& [id, entry] : dropped) {
    entry->first_line.cancel();
    entry->connection->close();
  }
}

}  // namespace ddprun::client
