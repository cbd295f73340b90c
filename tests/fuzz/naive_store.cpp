#include "tests/fuzz/naive_store.hpp"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace ddprun::fuzz {

namespace wire = protocol::tcpstore;
using enum wire::opcode;

naive_store::naive_store(core::store_limits limits, std::size_t clients_max)
    : limits_(limits), clients_(clients_max) {}

void naive_store::open(client who) {
  clients_[who] = client_state();
}

void naive_store::close(client who) {
  cancel(who);
  clients_[who] = client_state();
  std::erase(woken_, who);
  answer_woken();
}

std::set<std::string> naive_store::keys() const {
  std::set<std::string> all;
  for (const auto& [key, value] : now_.values)
    all.insert(key);
  for (const auto& [key, items] : now_.queues)
    all.insert(key);
  for (const lists* waiters : {&now_.waiting, &now_.at_barrier}) {
    for (const auto& [key, who] : *waiters)
      all.insert(key);
  }
  return all;
}

std::vector<std::string> naive_store::queued_keys() const {
  std::vector<std::string> all;
  for (const auto& [key, items] : now_.queues)
    all.push_back(key);
  return all;
}

std::size_t naive_store::keys_used() const {
  return keys().size();
}

std::size_t naive_store::bytes_used() const {
  std::size_t bytes = 0;
  for (const std::string& key : keys())
    bytes += core::store_key_bytes(key.size());
  std::set<text_value> all;  // each once, however many replies hold it
  for (const auto& [key, stored] : now_.values)
    all.insert(stored);
  for (const auto& [key, items] : now_.queues) {
    all.insert(items.begin(), items.end());
    bytes += core::store_queue_overhead_bytes + items.size() * core::store_item_overhead_bytes;
  }
  for (const lists* waiters : {&now_.waiting, &now_.at_barrier})
    bytes += waiters->size() * core::store_list_overhead_bytes;
  for (const client_state& state : clients_) {
    bytes += state.registered * core::store_wait_overhead_bytes;
    for (const held_value& held : state.held)
      all.insert(held.what);
  }
  for (const text_value& each : all)
    bytes += core::store_value_bytes(each->size());
  return bytes + lent_;
}

bool naive_store::has_room(std::size_t bytes) const {
  return bytes <= limits_.bytes_max - bytes_used();
}

bool naive_store::within_limits() const {
  return bytes_used() <= limits_.bytes_max && keys_used() <= limits_.keys_max;
}

result<std::size_t> naive_store::on_bytes(client who, std::string_view unused,
                                          std::size_t unsent_max) {
  client_state& state = clients_[who];
  std::size_t taken = 0;
  while (taken < unused.size() && state.unsent <= unsent_max) {
    if (!state.validated && unused[taken] != 0) return errc::wrong_protocol;
    const naive_parsed parsed = naive_parse(unused.substr(taken));
    if (parsed.what == naive_parsed::outcome::incomplete) break;
    if (parsed.what == naive_parsed::outcome::failed) return parsed.error;
    if (const error_code error = apply(who, parsed.request)) return error;
    answer_woken();
    taken += parsed.bytes;
  }
  return taken;
}

error_code naive_store::apply(client who, const naive_request& request) {
  switch (request.code) {
    case validate:
      if (clients_[who].validated || request.number != wire::validate_magic) {
        return errc::wrong_protocol;
      }
      clients_[who].validated = true;
      return {};
    case ping: {
      std::string echo;
      wire::append_u32(echo, static_cast<std::uint32_t>(request.number));
      say(who, echo);
      return {};
    }
    case get_num_keys:
      say_number(who, static_cast<std::int64_t>(now_.values.size()));
      return {};
    case list_keys:
      say_keys(who);
      return {};
    case queue_push:
    case queue_pop:
    case queue_len:
      return apply_queue(who, request);
    case check:
    case wait:
    case cancel_wait:
    case barrier:
      return apply_wait(who, request);
    default:
      return apply_value(who, request);
  }
}

error_code naive_store::apply_value(client who, const naive_request& request) {
  const auto& words = request.strings;
  const text_value found = words.empty() ? nullptr : find(words[0]);
  switch (request.code) {
    case get:
      say_value(who, found);
      return {};
    case multi_get:
      for (const std::string& key : words)
        say_value(who, find(key));
      return {};
    case delete_key:
      say_number(who, static_cast<std::int64_t>(now_.values.erase(words[0])));
      return {};
    case set:
      return set_value(words[0], words[1]);
    case append:
      return set_value(words[0], (found ? *found : "") + words[1]);
    case multi_set:
      for (std::size_t index = 0; index < words.size(); index += 2) {
        if (const error_code error = set_value(words[index], words[index + 1])) return error;
      }
      return {};
    case add: {
      const auto sum = add_number(words[0], request.number);
      if (!sum) return sum.error();
      say_number(who, *sum);
      return {};
    }
    default: {  // compare_set
      if (found && *found != words[1]) {
        say_value(who, found);
        return {};
      }
      if (!found && !words[1].empty()) {
        // The reply is the expected value, which no key ever had.
        if (!has_room(core::store_value_bytes(words[1].size()))) return errc::limit_reached;
        say_value(who, std::make_shared<std::string>(words[1]));
        return {};
      }
      if (const error_code error = set_value(words[0], words[2])) return error;
      say_value(who, find(words[0]));
      return {};
    }
  }
}

naive_store::text_value naive_store::find(const std::string& key) const {
  const auto found = now_.values.find(key);
  return found == now_.values.end() ? nullptr : found->second;
}

error_code naive_store::set_value(const std::string& key, const std::string& text) {
  if (text.size() > limits_.value_bytes_max) return errc::limit_reached;
  contents before = now_;
  const bool is_new = now_.values.insert_or_assign(key, std::make_shared<std::string>(text)).second;
  if (!within_limits()) {
    now_ = std::move(before);
    return errc::limit_reached;
  }
  while (is_new && now_.waiting.contains(key))
    arrive(now_.waiting, key);
  return {};
}

result<std::int64_t> naive_store::add_number(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  if (const text_value found = find(key)) {
    const char* const text = found->c_str();
    char* end = nullptr;
    errno = 0;
    sum = std::strtoll(text, &end, 10);
    if (end == text || errno != 0) return errc::invalid_argument;
  }
  if (__builtin_add_overflow(sum, delta, &sum)) return errc::invalid_argument;
  if (const error_code error = set_value(key, std::to_string(sum))) return error;
  return sum;
}

error_code naive_store::apply_queue(client who, const naive_request& request) {
  const std::string& key = request.strings[0];
  const auto found = now_.queues.find(key);
  const std::size_t length = found == now_.queues.end() ? 0 : found->second.size();
  if (request.code == queue_len) {
    say_number(who, static_cast<std::int64_t>(length));
    return {};
  }
  if (request.code == queue_pop) {
    if (clients_[who].offer == key) clients_[who].offer.reset();
    say_number(who, static_cast<std::int64_t>(length));
    if (length == 0) return {};
    say_value(who, found->second.front());
    found->second.pop_front();
    if (length == 1) now_.queues.erase(found);
    return {};
  }
  contents before = now_;
  now_.queues[key].push_back(std::make_shared<std::string>(request.strings[1]));
  if (!within_limits()) {
    now_ = std::move(before);
    return errc::limit_reached;
  }
  offer_one(key);
  return {};
}

bool naive_store::exists(const std::string& key) const {
  return now_.values.contains(key) || now_.queues.contains(key);
}

error_code naive_store::apply_wait(client who, const naive_request& request) {
  client_state& state = clients_[who];
  std::vector<std::string> absent;
  for (const std::string& key : request.strings) {
    if (!exists(key)) absent.push_back(key);
  }
  if (request.code == check) {
    say(who, std::string(1, absent.empty() ? wire::reply_ready : wire::reply_not_ready));
    return {};
  }
  cancel(who);
  if (request.code == cancel_wait) {
    say(who, std::string(1, wire::reply_wait_canceled));
    return {};
  }
  const bool is_barrier = request.code == barrier;
  if (is_barrier) {
    // There must be room to register, even for the last client that comes.
    lent_ = core::store_wait_overhead_bytes + core::store_list_overhead_bytes;
    const auto count = within_limits() ? add_number(request.strings[0], 1) : errc::limit_reached;
    lent_ = 0;
    if (!count) return count.error();
    if (*count < request.number) {
      absent = request.strings;
    } else {
      absent.clear();
      while (now_.at_barrier.contains(request.strings[0]))
        arrive(now_.at_barrier, request.strings[0]);
    }
  }
  if (absent.empty()) {
    say(who, std::string(1, wire::reply_stop_waiting));
    return {};
  }
  contents before = now_;
  for (const std::string& key : absent)
    (is_barrier ? now_.at_barrier : now_.waiting)[key].push_back(who);
  state.missing = absent;
  state.registered = absent.size();
  state.at_barrier = is_barrier;
  if (!within_limits()) {
    now_ = std::move(before);
    state.missing.clear();
    state.registered = 0;
    return errc::limit_reached;
  }
  return {};
}

// The first client in the list of `key` has what it waits for. Returns that client.
naive_store::client naive_store::arrive(lists& waiters, const std::string& key) {
  auto& list = waiters.at(key);
  const client who = list.front();
  list.erase(list.begin());
  if (list.empty()) waiters.erase(key);
  client_state& state = clients_[who];
  state.missing.erase(std::find(state.missing.begin(), state.missing.end(), key));
  if (state.missing.empty()) {
    state.registered = 0;
    woken_.push_back(who);
  }
  return who;
}

// One item goes to the first client whose wait it ends.
void naive_store::offer_one(const std::string& key) {
  while (now_.waiting.contains(key)) {
    const client who = arrive(now_.waiting, key);
    if (!clients_[who].missing.empty()) continue;
    clients_[who].offer = key;
    return;
  }
}

void naive_store::cancel(client who) {
  client_state& state = clients_[who];
  for (lists* waiters : {&now_.waiting, &now_.at_barrier}) {
    for (auto& [key, list] : *waiters)
      std::erase(list, who);
    std::erase_if(*waiters, [](const auto& entry) { return entry.second.empty(); });
  }
  state.missing.clear();
  state.registered = 0;
  const auto offer = std::exchange(state.offer, std::nullopt);
  if (offer && now_.queues.contains(*offer)) offer_one(*offer);
}

void naive_store::answer_woken() {
  for (const client who : std::exchange(woken_, {}))
    say(who, std::string(1, wire::reply_stop_waiting));
}

}  // namespace ddprun::fuzz
