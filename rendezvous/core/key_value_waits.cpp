// The waiting half of key_value_store: every wait is a row of nodes, one for each key that was
// absent, each linked into the list of its key, so that a wait ends without a search.
#include "rendezvous/core/key_value_store.hpp"

#include <algorithm>
#include <limits>

namespace ddprun::core {

key_value_store::client_id key_value_store::attach() {
  client_id client = 0;
  if (free_clients_.empty()) {
    DDPRUN_ASSERT(clients_.size() < std::numeric_limits<client_id>::max());
    client = static_cast<client_id>(clients_.size());
    clients_.emplace_back();
  } else {
    client = free_clients_.back();
    free_clients_.pop_back();
  }
  clients_[client].attached = true;
  return client;
}

void key_value_store::detach(client_id client) {
  DDPRUN_ASSERT(clients_[client].attached);
  cancel_wait(client);
  std::erase(woken_, client);
  clients_[client] = client_state{};
  free_clients_.push_back(client);
}

bool key_value_store::waits(client_id client) const {
  return clients_[client].missing != 0;
}

void key_value_store::link(item* at, wait_node* node) {
  wait_list& list = node->at_barrier ? at->second.at_barrier : at->second.waiting;
  node->at = at;
  node->previous = list.last;
  node->next = nullptr;
  (list.last != nullptr ? list.last->next : list.first) = node;
  list.last = node;
}

// Leaves an entry behind that may be unused.
void key_value_store::unlink(wait_node* node) {
  wait_list& list = node->at_barrier ? node->at->second.at_barrier : node->at->second.waiting;
  (node->previous != nullptr ? node->previous->next : list.first) = node->next;
  (node->next != nullptr ? node->next->previous : list.last) = node->previous;
  node->at = nullptr;
}

// What this node waits for has come. True with the last of them, which frees all and is the end of
// the wait.
bool key_value_store::arrived(wait_node* node) {
  const client_id client = node->client;
  unlink(node);
  client_state& waiter = clients_[client];
  if (--waiter.missing != 0) return false;
  release(waiter.nodes.size() * store_item_overhead_bytes);
  std::vector<wait_node>().swap(waiter.nodes);
  woken_.push_back(client);
  return true;
}

void key_value_store::wake_all(wait_list& list) {
  while (list.first != nullptr)
    arrived(list.first);
}

result<wait_outcome> key_value_store::wait(client_id client,
                                           std::span<const std::string_view> keys) {
  cancel_wait(client);
  const auto absent = static_cast<std::size_t>(
      std::count_if(keys.begin(), keys.end(), [&](auto key) { return !exists(key); }));
  if (absent == 0) return wait_outcome::over;
  if (!charge(absent * store_item_overhead_bytes)) return errc::limit_reached;
  client_state& waiter = clients_[client];
  waiter.nodes.resize(absent);
  for (const std::string_view key : keys) {
    if (exists(key)) continue;
    item* const at = find_or_create(key);
    if (at == nullptr) {
      cancel_wait(client);
      return errc::limit_reached;
    }
    wait_node& node = waiter.nodes[waiter.missing++];
    node.client = client;
    link(at, &node);
  }
  return wait_outcome::waiting;
}

result<wait_outcome> key_value_store::barrier(client_id client, std::string_view key,
                                              std::int64_t world_size) {
  cancel_wait(client);
  // Room to register is wanted first, and from the last who comes too: a call that fails must not
  // have counted.
  if (!charge(store_item_overhead_bytes)) return errc::limit_reached;
  const auto count = add(key, 1);
  const bool waits = count && *count < world_size;
  if (!waits) release(store_item_overhead_bytes);
  if (!count) return count.error();
  item* const at = find(key);
  if (!waits) {
    wake_all(at->second.at_barrier);
    return wait_outcome::over;
  }
  client_state& waiter = clients_[client];
  waiter.nodes.resize(1);
  waiter.missing = 1;
  waiter.nodes.front().client = client;
  waiter.nodes.front().at_barrier = true;
  link(at, &waiter.nodes.front());
  return wait_outcome::waiting;
}

void key_value_store::cancel_wait(client_id client) {
  client_state& waiter = clients_[client];
  // Who holds an offer was woken, and has no nodes.
  if (waiter.nodes.empty()) return pass_offer_on(client);
  for (wait_node& node : waiter.nodes) {
    item* const at = node.at;
    if (at == nullptr) continue;
    unlink(&node);
    drop_if_unused(at);
  }
  waiter.missing = 0;
  release(waiter.nodes.size() * store_item_overhead_bytes);
  std::vector<wait_node>().swap(waiter.nodes);
}

}  // namespace ddprun::core
