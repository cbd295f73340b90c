#include "tests/simulation/simulated_network.hpp"

#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::simulation {

using namespace std::chrono_literals;

duration network::delay() {
  if (random_.chance(2)) return random_.between(delay_most_, 20 * delay_most_);
  return random_.between(delay_least_, delay_most_);
}

bool network::reachable(host_id from, host_id to) const {
  if (from == to) return true;
  return world_.host_at(from).island == world_.host_at(to).island &&
         (silent_.empty() || !silent_.contains({from, to}));
}

void network::listen(process& by, host_id host, std::uint16_t port) {
  listeners_[{host, port}] = &by;
}

void network::stop_listening(host_id host, std::uint16_t port) {
  listeners_.erase({host, port});
}

bool network::is_taken(host_id host, std::uint16_t port) const {
  const auto found = listeners_.find({host, port});
  return found != listeners_.end() && found->second->alive();
}

std::uint64_t network::dial(process& from, const std::string& address, std::uint16_t port) {
  const std::uint64_t dial = ++dial_last_;
  const std::optional<host_id> to = world_.host_of_address(address, from.where().id);
  if (!to) {
    dials_[dial] = {&from, 0, port, 0};
    world_.time().after(delay(), [=, this] { dial_failed(dial, address + ": No route to host"); });
    return dial;
  }
  dials_[dial] = {&from, *to, port, 0};
  world_.time().after(delay(), [=, this] { attempt(dial); });
  return dial;
}

// A SYN arrives, or is lost and sent again 1, 3 and 7 s after the first, as Linux does.
void network::attempt(std::uint64_t dial) {
  const auto found = dials_.find(dial);
  if (found == dials_.end()) return;
  pending_dial& pending = found->second;
  host& target = world_.host_at(pending.to);
  const host_id source = pending.from->where().id;
  const bool heard = target.powered && !target.standing_still && reachable(source, pending.to) &&
                     reachable(pending.to, source);
  if (!heard) {
    if (pending.attempt == 2) return dial_failed(dial, target.address + ": Connection timed out");
    const duration pause = 1s * (1 << pending.attempt++);
    world_.time().after(pause, [=, this] { attempt(dial); });
    return;
  }
  const auto listener = listeners_.find({pending.to, pending.port});
  if (listener == listeners_.end() || !listener->second->alive()) {
    const std::string text = target.address + ": Connection refused";
    world_.time().after(delay(), [=, this] { dial_failed(dial, text); });
    return;
  }
  establish(dial, *listener->second);
}

void network::dial_failed(std::uint64_t dial, const std::string& text) {
  const auto found = dials_.find(dial);
  if (found == dials_.end()) return;
  process* from = found->second.from;
  dials_.erase(found);
  from->post([=] { from->on_dial_failed(dial, text); });
}

void network::establish(std::uint64_t dial, process& listener) {
  const pending_dial pending = dials_[dial];
  auto made = std::make_shared<connection>();
  made->id = ++connection_last_;
  made->window = 1 + random_.below(world_.window_most());
  made->ends[0].owner = pending.from;
  made->ends[0].host = pending.from->where().id;
  made->ends[1].owner = &listener;
  made->ends[1].host = pending.to;
  pending.from->connections[made->id] = made;
  listener.connections[made->id] = made;
  process* to = &listener;
  to->post([=] { to->on_accepted(*made, 1, pending.port); });
  const duration back = delay();
  made->ends[1].last_arrival = world_.now() + back;
  world_.time().after(back, [=, this] {
    const bool wanted = dials_.erase(dial) == 1 && pending.from->alive();
    if (!wanted) {
      if (made->ends[0].open) close(*made, 0);
      return;
    }
    if (!made->ends[0].open) {
      pending.from->post([=] { pending.from->on_dial_failed(dial, "Connection reset by peer"); });
      return;
    }
    pending.from->post([=] {
      if (!made->ends[0].open) {
        pending.from->on_dial_failed(dial, "Connection reset by peer");
        return;
      }
      pending.from->on_dialed(dial, *made, 0);
    });
  });
}

void network::send(connection& over, int end, payload message) {
  connection::endpoint& from = over.ends[static_cast<std::size_t>(end)];
  if (!from.open || from.closing) return;
  std::string problem;
  parcel packed = transport(std::move(message), problem);
  if (!packed.content) return world_.violated("protocol: " + problem);
  ++messages_;
  bytes_ += packed.bytes;
  world_.message_sent(over, end, packed);
  if (from.unread < over.window && from.outbox.empty()) {
    transmit(over, end, std::move(packed));
    return;
  }
  if (from.outbox.empty()) from.stuck_since = world_.now();
  const int kind = replaceable_kind(*packed.content);
  for (parcel& waiting : from.outbox) {
    if (kind != 0 && !waiting.last && world_.queues_replace() &&
        replaceable_kind(*waiting.content) == kind) {
      waiting = std::move(packed);
      return;
    }
  }
  from.outbox.push_back(std::move(packed));
  world_.queue_grew(over, end);
}

void network::transmit(connection& over, int end, parcel message) {
  connection::endpoint& from = over.ends[static_cast<std::size_t>(end)];
  message.number = from.sent++;
  ++from.unread;
  const moment arrival = std::max(from.last_arrival + 1ns, world_.now() + delay());
  from.last_arrival = arrival;
  auto self = over.shared_from_this();
  world_.time().at(arrival, [=, this] { arrive(self, end, message); });
}

void network::arrive(const std::shared_ptr<connection>& over, int end, parcel message) {
  connection::endpoint& from = over->ends[static_cast<std::size_t>(end)];
  connection::endpoint& to = over->ends[static_cast<std::size_t>(1 - end)];
  if (message.number >= from.lost_from) return;
  const host& target = world_.host_at(to.host);
  if (!target.powered) return;
  if (!reachable(from.host, to.host) || target.standing_still || !from.held.empty()) {
    from.held.push_back(std::move(message));
    holding_[over->id] = over;
    return;
  }
  from.early.emplace(message.number, std::move(message));
  while (!from.early.empty() && from.early.begin()->first <= from.arrived) {
    parcel next = std::move(from.early.begin()->second);
    from.early.erase(from.early.begin());
    deliver(over, end, std::move(next));
  }
}

void network::deliver(const std::shared_ptr<connection>& over, int end, parcel message) {
  connection::endpoint& from = over->ends[static_cast<std::size_t>(end)];
  connection::endpoint& to = over->ends[static_cast<std::size_t>(1 - end)];
  from.arrived = message.number + 1;
  if (to.forgotten) {
    if (!message.last && from.open) {
      world_.time().after(delay(), [=, this] {
        if (reachable(over->ends[static_cast<std::size_t>(1 - end)].host,
                      over->ends[static_cast<std::size_t>(end)].host))
          reset(over, end, "Connection reset by peer");
      });
    }
    return;
  }
  if (!to.open) return;
  if (message.last) {
    reset(over, 1 - end, "closed by the peer");
    return;
  }
  process* reader = to.owner;
  reader->post([=, this] {
    connection::endpoint& sender = over->ends[static_cast<std::size_t>(end)];
    connection::endpoint& receiver = over->ends[static_cast<std::size_t>(1 - end)];
    if (sender.unread > 0) --sender.unread;
    if (receiver.open) {
      world_.message_read(*over, end, *message.content);
      reader->on_message(*over, 1 - end, *message.content);
    }
    pump(*over, end);
  });
}

void network::pump(connection& over, int end) {
  connection::endpoint& from = over.ends[static_cast<std::size_t>(end)];
  while (!from.outbox.empty() && from.unread < over.window) {
    parcel next = std::move(from.outbox.front());
    from.outbox.pop_front();
    from.stuck_since = world_.now();
    transmit(over, end, std::move(next));
  }
}

// The connection has ended for this end, and its process learns of that after it has read what is
// left.
void network::reset(const std::shared_ptr<connection>& which, int end, const std::string& text) {
  connection::endpoint& here = which->ends[static_cast<std::size_t>(end)];
  here.forgotten = true;
  if (!here.open) return;
  process* owner = here.owner;
  owner->post([=] {
    connection::endpoint& still = which->ends[static_cast<std::size_t>(end)];
    if (!still.open) return;
    still.open = false;
    still.outbox.clear();
    owner->connections.erase(which->id);
    owner->on_closed(*which, end, text);
  });
}

void network::close(connection& which, int end) {
  connection::endpoint& from = which.ends[static_cast<std::size_t>(end)];
  if (!from.open || from.closing) return;
  auto self = which.shared_from_this();
  from.closing = true;
  from.open = false;
  from.owner->connections.erase(which.id);
  for (parcel& waiting : from.outbox)
    transmit(which, end, std::move(waiting));
  from.outbox.clear();
  parcel fin;
  fin.last = true;
  transmit(which, end, std::move(fin));
  from.forgotten = true;
}

void network::process_died(process& who, bool host_lost_power) {
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &who; });
  std::vector<std::shared_ptr<connection>> mine;
  for (const auto& [id, held] : who.connections)
    mine.push_back(held);
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  for (const auto& each : mine) {
    const int end = each->ends[0].owner == &who ? 0 : 1;
    connection::endpoint& from = each->ends[static_cast<std::size_t>(end)];
    from.outbox.clear();
    if (host_lost_power) {
      from.open = false;
      from.forgotten = true;
      continue;
    }
    if (random_.chance(20)) {
      break_connection(*each);
      from.open = false;
      from.forgotten = true;
      continue;
    }
    close(*each, end);
  }
  who.connections.clear();
}

void network::break_connection(connection& which, bool both_hear) {
  auto self = which.shared_from_this();
  for (int end = 0; end < 2; ++end) {
    connection::endpoint& from = which.ends[static_cast<std::size_t>(end)];
    const std::uint64_t flying = from.sent - std::min(from.sent, from.arrived);
    from.lost_from = std::min(from.lost_from, from.arrived + random_.below(flying + 1));
    if (both_hear || random_.chance(75)) {
      const duration heard = std::max(from.last_arrival - world_.now(), duration::zero()) + delay();
      world_.time().after(heard, [=, this] { reset(self, 1 - end, "Connection reset by peer"); });
    } else {
      // In this direction the path has forgotten the connection, so whatever is still sent over it
      // is lost.
      world_.trace([&] { return "half-open " + std::to_string(which.id); });
    }
  }
}

void network::set_silent(host_id from, host_id to, bool silent) {
  if (silent) {
    silent_.insert({from, to});
  } else {
    silent_.erase({from, to});
    release_held();
  }
}

void network::heal_links() {
  silent_.clear();
  release_held();
}

void network::islands_changed() {
  release_held();
}

// What a silent link has held arrives in order after the kernel's next retransmission. Now and then
// the path has forgotten the connection in the meantime, and answers with a reset.
void network::release_held() {
  const auto holding = std::exchange(holding_, {});
  for (const auto& [id, weak] : holding) {
    const auto over = weak.lock();
    if (!over) continue;
    for (int end = 0; end < 2; ++end) {
      connection::endpoint& from = over->ends[static_cast<std::size_t>(end)];
      connection::endpoint& to = over->ends[static_cast<std::size_t>(1 - end)];
      if (from.held.empty()) continue;
      if (!reachable(from.host, to.host) || world_.host_at(to.host).standing_still) {
        holding_[id] = over;
        continue;
      }
      if (random_.chance(10)) {
        from.held.clear();
        from.lost_from = from.arrived;
        world_.time().after(delay(), [=, this] { reset(over, end, "Connection reset by peer"); });
        continue;
      }
      const moment first = world_.now() + random_.between(0ms, 1500ms);
      from.last_arrival = std::max(from.last_arrival, first);
      for (const parcel& message : std::exchange(from.held, {}))
        world_.time().at(from.last_arrival += 1us, [=, this] { arrive(over, end, message); });
    }
  }
}

}  // namespace ddprun::simulation
