#include "rendezvous/core/store/key_value_store.hpp"

#include <charconv>
#include <limits>
#include <new>
#include <utility>

namespace ddprun::core {
namespace {

// The number at the start of `text`, read like C's strtoll: blanks, a sign, digits; the rest is
// ignored.
result<std::int64_t> leading_number(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) return errc::invalid_argument;
  text.remove_prefix(start);
  if (text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return errc::invalid_argument;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return errc::invalid_argument;
  return number;
}

constexpr std::size_t decimal_bytes_max = std::numeric_limits<std::int64_t>::digits10 + 2;

}  // namespace

key_value_store::key_value_store(store_limits limits, hash_seed seed)
    : limits_(limits), entries_(0, key_hash{seed}) {}

bool key_value_store::has_room(std::size_t bytes) {
  while (bytes > limits_.bytes_max - memory_.used) {
    if (memory_.let_go == 0 || !let_go_ || !let_go_()) return false;
  }
  return true;
}

bool key_value_store::charge(std::size_t bytes) {
  if (!has_room(bytes)) return false;
  memory_.used += bytes;
  return true;
}

void key_value_store::release(std::size_t bytes) {
  DDPRUN_ASSERT(bytes <= memory_.used);
  memory_.used -= bytes;
}

// Grows by half: a value that is appended to byte by byte is not copied each time, and its buffer
// stays closer to its counted size than std::string's would.
void key_value_store::counted_bytes::grow(std::size_t wanted) {
  std::string larger;
  larger.reserve(wanted + wanted / 2);
  larger.append(text);
  text.swap(larger);
}

// Takes the value from a key that is about to get another, or none, for those that still hold it.
shared_bytes key_value_store::take(counted&& value) {
  const counted taken = std::move(value);
  taken->let_go();
  return shared(taken);
}

key_value_store::item* key_value_store::find(std::string_view key) {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &*found;
}

const key_value_store::item* key_value_store::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &*found;
}

// Null: a limit is reached.
key_value_store::item* key_value_store::find_or_create(std::string_view key) {
  item* const at = find(key);
  return at != nullptr ? at : create(key);
}

// Creates the entry of a key that has none.
key_value_store::item* key_value_store::create(std::string_view key) {
  if (entries_.size() >= limits_.keys_max) return nullptr;
  if (!has_room(store_key_bytes(key.size()))) return nullptr;
  item* const at = &*entries_.try_emplace(std::string(key)).first;
  memory_.used += store_key_bytes(key.size());
  return at;
}

void key_value_store::drop_if_unused(item* at) {
  entry& unused = at->second;
  if (unused.value || unused.has_queue()) return;
  // Waiting clients point to this entry.
  if (unused.waiting || unused.at_barrier) return;
  release(store_key_bytes(at->first.size()));
  entries_.erase(entries_.find(at->first));
}

shared_bytes key_value_store::get(std::string_view key) const {
  const item* const at = find(key);
  return at == nullptr || !at->second.value ? nullptr : shared(at->second.value);
}

std::string_view key_value_store::peek(std::string_view key) const {
  const item* const at = find(key);
  return at == nullptr || !at->second.value ? std::string_view() : at->second.value->text;
}

bool key_value_store::exists(std::string_view key) const {
  const item* const at = find(key);
  return at != nullptr && (at->second.value || at->second.has_queue());
}

// `at` is the entry of `key`, or null when there is none yet. Changes nothing when it fails.
error_code key_value_store::store(std::string_view key, item* at, std::string_view value) {
  if (value.size() > limits_.value_bytes_max) return errc::limit_reached;
  if (at != nullptr && at->second.value) {
    counted& current = at->second.value;
    // A reader may still hold the old value, which must not change under it.
    const bool sole = current.use_count() == 1;
    // The same size cannot exceed any limit.
    if (sole && value.size() == current->text.size()) {
      current->text.assign(value);
      return {};
    }
    const std::size_t cost = store_value_bytes(value.size());
    // A value that a reader holds stays counted until the reader lets go.
    const std::size_t replaced = sole ? current->cost() : 0;
    if (cost > replaced && !has_room(cost - replaced)) return errc::limit_reached;
    if (sole && fits(current, value)) {
      current->assign(value);
      return {};
    }
    counted made = make_value(value);
    take(std::exchange(current, std::move(made)));
    return {};
  }
  const std::size_t created = at == nullptr ? store_key_bytes(key.size()) : 0;
  if (!has_room(store_value_bytes(value.size()) + created)) return errc::limit_reached;
  counted made = make_value(value);
  if (at == nullptr) at = create(key);
  if (at == nullptr) return errc::limit_reached;
  at->second.value = std::move(made);
  value_appeared(at);
  return {};
}

// A buffer that would be far too large for the value is not reused.
bool key_value_store::fits(const counted& current, std::string_view value) {
  const std::size_t room = current->text.capacity();
  return value.size() <= room && room <= value.size() + value.size() / 4 + 32;
}

void key_value_store::value_appeared(item* at) {
  ++values_;
  value_keys_bytes_ += at->first.size();
  wake_all(at->second.waiting);
}

error_code key_value_store::set(std::string_view key, std::string_view value) {
  return store(key, find(key), value);
}

error_code key_value_store::append(std::string_view key, std::string_view value) {
  item* const at = find(key);
  if (at == nullptr || !at->second.value) return store(key, at, value);
  counted& current = at->second.value;
  const std::size_t before = current->text.size();
  if (value.size() > limits_.value_bytes_max - before) return errc::limit_reached;
  const bool sole = current.use_count() == 1;
  const std::size_t cost = store_value_bytes(before + value.size());
  const std::size_t more = cost - store_value_bytes(before);
  if (!has_room(sole ? more : cost)) return errc::limit_reached;
  if (!sole) {
    counted made = make_value(current->text);
    take(std::exchange(current, std::move(made)));
  }
  current->append(value, more);
  return {};
}

std::int64_t key_value_store::erase(std::string_view key) {
  item* const at = find(key);
  if (at == nullptr || !at->second.value) return 0;
  take(std::move(at->second.value));
  --values_;
  value_keys_bytes_ -= at->first.size();
  drop_if_unused(at);
  return 1;
}

result<shared_bytes> key_value_store::compare_set(std::string_view key, std::string_view expected,
                                                  std::string_view desired) {
  item* const at = find(key);
  if (at == nullptr || !at->second.value) {
    if (!expected.empty()) {
      // As from PyTorch's server, the reply is the expected value, and nothing is stored.
      if (!has_room(store_value_bytes(expected.size()))) return errc::limit_reached;
      return take(make_value(expected));
    }
  } else if (at->second.value->text != expected) {
    return shared(at->second.value);
  }
  if (const error_code error = store(key, at, desired)) return error;
  return get(key);
}

result<std::int64_t> key_value_store::add(std::string_view key, std::int64_t delta) {
  item* const at = find(key);
  std::int64_t sum = 0;
  if (at != nullptr && at->second.value) {
    const auto number = leading_number(at->second.value->text);
    if (!number) return number.error();
    sum = *number;
  }
  if (__builtin_add_overflow(sum, delta, &sum)) return errc::invalid_argument;
  char text[decimal_bytes_max];
  const char* const end = std::to_chars(text, text + sizeof text, sum).ptr;
  if (const error_code error =
          store(key, at, std::string_view(text, static_cast<std::size_t>(end - text)))) {
    return error;
  }
  return sum;
}

void key_value_store::for_each_key(const std::function<void(std::string_view)>& visit) const {
  for (const auto& [key, value] : entries_) {
    if (value.value) visit(key);
  }
}

error_code key_value_store::queue_push(std::string_view key, std::string_view value) {
  item* at = find(key);
  const bool first = at == nullptr || !at->second.queue;
  const std::size_t more = store_item_overhead_bytes + (first ? store_queue_overhead_bytes : 0);
  const std::size_t created = at == nullptr ? store_key_bytes(key.size()) : 0;
  if (!has_room(store_value_bytes(value.size()) + more + created)) return errc::limit_reached;
  auto queue = first ? std::make_unique<std::deque<counted>>() : nullptr;
  (first ? *queue : *at->second.queue).push_back(make_value(value));
  if (at == nullptr) at = create(key);
  if (at == nullptr) return errc::limit_reached;
  if (first) at->second.queue = std::move(queue);
  charge(more);
  offer_item(at);
  return {};
}

shared_bytes key_value_store::queue_pop(std::string_view key, client_id client,
                                        std::int64_t& length) {
  client_state& popper = clients_[client];
  if (popper.has_offer && popper.queue_offered == key) {
    popper.has_offer = false;
    std::string().swap(popper.queue_offered);
  }
  length = queue_length(key);
  if (length == 0) return nullptr;
  item* const at = find(key);
  shared_bytes front = take(std::move(at->second.queue->front()));
  at->second.queue->pop_front();
  release(store_item_overhead_bytes);
  if (at->second.queue->empty()) {
    at->second.queue.reset();
    release(store_queue_overhead_bytes);
  }
  drop_if_unused(at);
  return front;
}

std::int64_t key_value_store::queue_length(std::string_view key) const {
  const item* const at = find(key);
  if (at == nullptr || !at->second.queue) return 0;
  return static_cast<std::int64_t>(at->second.queue->size());
}

// One item is for one client: the first waiting client that it wakes. A client that waits for other
// keys, too, counts this one as present and goes on waiting, so that no client holds more than one
// offer.
void key_value_store::offer_item(item* at) {
  auto& list = at->second.waiting;
  while (list) {
    const registration one = list->all[list->next++];
    if (!is_live(one)) continue;
    if (--list->live == 0) {
      drop_list(list);
    } else {
      sweep(*list);
    }
    if (!arrived(one)) continue;
    client_state& client = clients_[one.client];
    try {
      client.queue_offered = at->first;
      client.has_offer = true;
    } catch (const std::bad_alloc&) {
      // The client is woken nevertheless. If it does not take the item, the item waits for the next
      // one.
    }
    return;
  }
}

// A client that was woken for an item and did not take it must not keep it from the next waiter.
void key_value_store::pass_offer_on(client_id client) {
  client_state& holder = clients_[client];
  if (!holder.has_offer) return;
  holder.has_offer = false;
  item* const at = find(std::exchange(holder.queue_offered, {}));
  if (at != nullptr && at->second.has_queue()) offer_item(at);
}

}  // namespace ddprun::core
