#include "worker/store_client.hpp"

#include "worker/store_connection.hpp"

namespace ddprun::worker {

namespace wire = protocol::tcpstore;
using wire::opcode;

result<store_client> store_client::connect(const std::string& address, std::uint16_t port,
                                           const deadline& until, std::string& problem,
                                           const std::string& who, int segment_bytes_max) {
  auto connection = store_connection::open(
      address, port, until, {.who = who, .segment_bytes_max = segment_bytes_max}, problem);
  if (!connection) return connection.error();
  return store_client(std::move(*connection));
}

result<store_client> store_client::from_environment(const environment& here, const deadline& until,
                                                    std::string& problem) {
  const std::string who =
      "rank " + std::to_string(here.rank) + " of " + std::to_string(here.world_size);
  auto client = connect(here.master_address, here.master_port, until, problem, who);
  if (!client && !here.agent_store) {
    problem +=
        "; the launcher serves no store here (TORCHELASTIC_USE_AGENT_STORE is not True): "
        "rank 0 must, with PyTorch";
  }
  return client;
}

result<store_client> store_client::on_new_connection(const environment& here, const deadline& until,
                                                     std::string& problem) const {
  auto client = from_environment(here, until, problem);
  if (client) client->prefix_ = prefix_;
  return client;
}

store_client store_client::with_prefix(std::string_view prefix) const {
  store_client view = *this;
  view.prefix_.append(prefix).append("/");
  return view;
}

const std::string& store_client::problem() const {
  return connection_->problem();
}

bool store_client::is_connected() const {
  return !connection_->is_over();
}

// PyTorch's TCPStore puts a slash in front of all keys except its own "init/".
std::string store_client::wire_key(std::string_view key) const {
  std::string full = "/" + prefix_;
  return full.append(key);
}

std::vector<std::string> store_client::wire_keys(key_list keys) const {
  std::vector<std::string> full;
  full.reserve(keys.size());
  for (const std::string& key : keys)
    full.push_back(wire_key(key));
  return full;
}

namespace {

result<wire::reply> ask(store_connection& of, opcode code, std::span<const std::string> strings,
                        const deadline& until) {
  const std::vector<std::string_view> views(strings.begin(), strings.end());
  return of.ask({code, views, 0}, until);
}

result<wire::reply> ask_about(store_connection& of, opcode code, const std::string& full_key,
                              const deadline& until, std::int64_t number = 0) {
  const std::string_view view = full_key;
  return of.ask({code, std::span(&view, 1), number}, until);
}

error_code error_of(const result<wire::reply>& answer) {
  return answer ? error_code() : answer.error();
}

result<std::int64_t> number_of(const result<wire::reply>& answer) {
  if (!answer) return answer.error();
  return answer->number;
}

result<std::string> string_of(const result<wire::reply>& answer) {
  if (!answer) return answer.error();
  return std::string(answer->strings.front());
}

result<bool> truth_of(const result<wire::reply>& answer, std::int64_t yes) {
  // An error code converts to bool too, so the error must be marked as such.
  if (!answer) return {boost::system::in_place_error, answer.error()};
  return answer->number == yes;
}

}  // namespace

error_code store_client::set(std::string_view key, std::string_view value, const deadline& until) {
  const std::string full = wire_key(key);
  const std::string_view strings[] = {full, value};
  return error_of(connection_->ask({opcode::set, strings}, until));
}

error_code store_client::append(std::string_view key, std::string_view value,
                                const deadline& until) {
  const std::string full = wire_key(key);
  const std::string_view strings[] = {full, value};
  return error_of(connection_->ask({opcode::append, strings}, until));
}

error_code store_client::multi_set(pair_list pairs, const deadline& until) {
  std::vector<std::string> keys;
  keys.reserve(pairs.size());
  std::vector<std::string_view> strings;
  for (const auto& [key, value] : pairs) {
    strings.push_back(keys.emplace_back(wire_key(key)));
    strings.push_back(value);
  }
  return error_of(connection_->ask({opcode::multi_set, strings}, until));
}

result<std::string> store_client::get(std::string_view key, const deadline& until) {
  if (const auto waited = ask_about(*connection_, opcode::wait, wire_key(key), until); !waited)
    return waited.error();
  return string_of(ask_about(*connection_, opcode::get, wire_key(key), until));
}

result<std::vector<std::string>> store_client::multi_get(key_list keys, const deadline& until) {
  const std::vector<std::string> full = wire_keys(keys);
  if (const auto waited = ask(*connection_, opcode::wait, full, until); !waited)
    return waited.error();
  const auto answer = ask(*connection_, opcode::multi_get, full, until);
  if (!answer) return answer.error();
  return std::vector<std::string>(answer->strings.begin(), answer->strings.end());
}

result<std::int64_t> store_client::add(std::string_view key, std::int64_t delta,
                                       const deadline& until) {
  return number_of(ask_about(*connection_, opcode::add, wire_key(key), until, delta));
}

result<std::string> store_client::compare_set(std::string_view key, std::string_view expected,
                                              std::string_view desired, const deadline& until) {
  const std::string full = wire_key(key);
  const std::string_view strings[] = {full, expected, desired};
  return string_of(connection_->ask({opcode::compare_set, strings}, until));
}

result<bool> store_client::check(key_list keys, const deadline& until) {
  return truth_of(ask(*connection_, opcode::check, wire_keys(keys), until), wire::reply_ready);
}

error_code store_client::wait(key_list keys, const deadline& until) {
  return error_of(ask(*connection_, opcode::wait, wire_keys(keys), until));
}

error_code store_client::wait(const std::string& key, const deadline& until) {
  return wait(key_list(&key, 1), until);
}

result<bool> store_client::delete_key(std::string_view key, const deadline& until) {
  return truth_of(ask_about(*connection_, opcode::delete_key, wire_key(key), until), 1);
}

result<std::int64_t> store_client::num_keys(const deadline& until) {
  return number_of(ask(*connection_, opcode::get_num_keys, {}, until));
}

result<std::vector<std::string>> store_client::list_keys(const deadline& until) {
  const auto answer = ask(*connection_, opcode::list_keys, {}, until);
  if (!answer) return answer.error();
  const std::string front = wire_key("");
  std::vector<std::string> keys;
  for (const std::string_view key : answer->strings) {
    if (key.starts_with(front)) keys.emplace_back(key.substr(front.size()));
  }
  return keys;
}

error_code store_client::queue_push(std::string_view key, std::string_view value,
                                    const deadline& until) {
  const std::string full = wire_key(key);
  const std::string_view strings[] = {full, value};
  return error_of(connection_->ask({opcode::queue_push, strings}, until));
}

result<std::optional<std::string>> store_client::try_queue_pop(std::string_view key,
                                                               const deadline& until) {
  const auto answer = ask_about(*connection_, opcode::queue_pop, wire_key(key), until);
  if (!answer) return answer.error();
  std::optional<std::string> item;
  if (!answer->strings.empty()) item = answer->strings.front();
  return item;
}

result<std::string> store_client::queue_pop(std::string_view key, const deadline& until) {
  while (true) {
    // Another client may take the item between the wait and the pop: then wait again.
    if (const auto waited = ask_about(*connection_, opcode::wait, wire_key(key), until); !waited)
      return waited.error();
    auto item = try_queue_pop(key, until);
    if (!item) return item.error();
    if (*item) return std::move(**item);
  }
}

result<std::int64_t> store_client::queue_len(std::string_view key, const deadline& until) {
  return number_of(ask_about(*connection_, opcode::queue_len, wire_key(key), until));
}

error_code store_client::barrier(std::string_view key, std::uint32_t world_size,
                                 const deadline& until) {
  return error_of(ask_about(*connection_, opcode::barrier, wire_key(key), until, world_size));
}

result<std::int64_t> store_client::count_in(const deadline& until) {
  const std::string_view key = "init/";
  return number_of(connection_->ask({opcode::add, std::span(&key, 1), 1}, until));
}

}  // namespace ddprun::worker
