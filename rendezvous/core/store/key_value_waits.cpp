// The waiting half of key_value_store. A wait is registered in the list of each key that was
// absent. A client that withdraws from thousands of keys does not search their lists: its
// registrations no longer count, and are removed later, together with others.
#include "rendezvous/core/store/key_value_store.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace ddprun::core {

// How many registrations that no longer count a list may have, beyond as many as live ones.
constexpr std::size_t withdrawn_kept = 2;

key_value_store::client_id key_value_store::attach() {
  client_id client = 0;
  if (free_clients_.empty()) {
    DDPRUN_ASSERT(clients_.size() < std::numeric_limits<client_id>::max());
    client = static_cast<client_id>(clients_.size());
    clients_.emplace_back();
    // So that no client is lost if memory is short when it is woken, or detached.
    woken_.reserve(clients_.capacity());
    free_clients_.reserve(clients_.capacity());
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
  client_state gone;
  gone.wait_number = clients_[client].wait_number;
  clients_[client] = std::move(gone);
  free_clients_.push_back(client);
}

bool key_value_store::waits(client_id client) const {
  return clients_[client].missing != 0;
}

// `missing_at` must have room for it. False: a limit is reached.
bool key_value_store::add_wait(client_id client, item* at) {
  client_state& waiter = clients_[client];
  auto& list = list_of(at, waiter.at_barrier);
  const std::size_t cost = store_wait_overhead_bytes + (list ? 0 : store_list_overhead_bytes);
  if (!has_room(cost)) return false;
  const registration one{client, static_cast<std::uint32_t>(waiter.missing_at.size()),
                         waiter.wait_number};
  if (list) {
    list->all.push_back(one);
  } else {
    auto made = std::make_unique<wait_list>();
    made->all.push_back(one);
    list = std::move(made);
  }
  memory_.used += cost;
  ++list->live;
  ++waiter.missing;
  waiter.missing_at.push_back(at);
  return true;
}

// Withdraws its registrations, unless all have had their turn. Returns where they were.
std::vector<key_value_store::item*> key_value_store::end_wait(client_id client) {
  client_state& waiter = clients_[client];
  ++waiter.wait_number;
  waiter.missing = 0;
  release(waiter.missing_at.size() * store_wait_overhead_bytes);
  return std::exchange(waiter.missing_at, {});
}

void key_value_store::drop_list(std::unique_ptr<wait_list>& list) {
  release(store_list_overhead_bytes);
  list.reset();
}

void key_value_store::sweep(wait_list& list) const {
  if (list.all.size() <= 2 * list.live + withdrawn_kept) return;
  list.all.erase(list.all.begin(), list.all.begin() + static_cast<std::ptrdiff_t>(list.next));
  list.next = 0;
  std::erase_if(list.all, [this](const registration& one) { return !is_live(one); });
  list.all.shrink_to_fit();
}

// One of the keys that it waits for has come. True: it was the last one, and the wait is over.
bool key_value_store::arrived(const registration& one) {
  client_state& waiter = clients_[one.client];
  waiter.missing_at[one.slot] = nullptr;
  if (--waiter.missing != 0) return false;
  end_wait(one.client);
  woken_.push_back(one.client);
  return true;
}

void key_value_store::wake_all(std::unique_ptr<wait_list>& list) {
  if (!list) return;
  const auto woken = std::move(list);
  release(store_list_overhead_bytes);
  for (std::size_t index = woken->next; index < woken->all.size(); ++index) {
    if (is_live(woken->all[index])) arrived(woken->all[index]);
  }
}

result<wait_outcome> key_value_store::wait(client_id client,
                                           std::span<const std::string_view> keys) {
  cancel_wait(client);
  std::vector<std::string_view> absent;
  for (const std::string_view key : keys) {
    if (!exists(key)) absent.push_back(key);
  }
  if (absent.empty()) return wait_outcome::over;
  if (!has_room(absent.size() * store_wait_overhead_bytes)) return errc::limit_reached;
  client_state& waiter = clients_[client];
  waiter.at_barrier = false;
  waiter.missing_at.reserve(absent.size());
  for (const std::string_view key : absent) {
    item* const at = find_or_create(key);
    if (at != nullptr && add_wait(client, at)) continue;
    // The entry may have been created for this wait.
    if (at != nullptr) drop_if_unused(at);
    cancel_wait(client);
    waiter.missing_at.shrink_to_fit();
    return errc::limit_reached;
  }
  return wait_outcome::waiting;
}

result<wait_outcome> key_value_store::barrier(client_id client, std::string_view key,
                                              std::int64_t world_size) {
  cancel_wait(client);
  // Room to register is reserved first, even for the last client to come, because a call that fails
  // must not have counted.
  constexpr std::size_t room = store_wait_overhead_bytes + store_list_overhead_bytes;
  clients_[client].missing_at.reserve(1);
  if (!charge(room)) return errc::limit_reached;
  const auto count = [&] {
    const std::unique_ptr<key_value_store, void (*)(key_value_store*)> kept(
        this, [](key_value_store* lender) { lender->release(room); });
    return add(key, 1);
  }();
  const bool waits = count && *count < world_size;
  if (!count) return count.error();
  item* const at = find(key);
  if (!waits) {
    wake_all(at->second.at_barrier);
    return wait_outcome::over;
  }
  clients_[client].at_barrier = true;
  // This cannot fail: the room that was held while the count was stored is free again.
  DDPRUN_ASSERT(add_wait(client, at));
  return wait_outcome::waiting;
}

void key_value_store::cancel_wait(client_id client) {
  client_state& waiter = clients_[client];
  // A client that holds an offer was woken, and no longer waits.
  if (waiter.missing == 0) return pass_offer_on(client);
  for (item* const at : end_wait(client)) {
    if (at == nullptr) continue;
    auto& list = list_of(at, waiter.at_barrier);
    if (--list->live == 0) {
      drop_list(list);
      drop_if_unused(at);
    } else {
      sweep(*list);
    }
  }
}

}  // namespace ddprun::core
