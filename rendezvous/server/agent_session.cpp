#include "rendezvous/server/agent_session.hpp"

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

namespace ddprun::server {
namespace {

constexpr duration last_words_limit = std::chrono::seconds(2);

}  // namespace

agent_session::agent_session(net::tcp::socket socket, connection_id id, owner& whom,
                             std::shared_ptr<evictable_peers> newcomers, duration hello_limit,
                             duration stall_limit)
    : id_(id), owner_(whom), newcomers_(std::move(newcomers)) {
  hello_timer_ = std::make_unique<boost::asio::steady_timer>(socket.get_executor());
  net::line_handlers handlers;
  handlers.on_line = [this](std::string_view line) { take_line(line); };
  handlers.on_end = [this](error_code error) { end(error.message()); };
  handlers.on_unfinished = [this](std::size_t bytes) {
    if (hello_timer_) newcomers_->hold(place_, bytes);
  };
  connection_ =
      std::make_shared<net::line_connection>(std::move(socket), std::move(handlers), stall_limit);
  peer_address_ = connection_->peer_address();
  local_address_ = connection_->local_address();
  connection_->set_line_limit(hello_bytes_max);
  place_ = newcomers_->enter([this] { let_go(); });
  try {
    await_hello(hello_limit);
  } catch (const std::bad_alloc&) {
    newcomers_->leave(place_);  // this session never existed
    throw;
  }
}

void agent_session::await_hello(duration hello_limit) {
  hello_timer_->expires_after(hello_limit);
  // The handler asks the connection, not the session: if the wait was cancelled in the same moment,
  // the session may already be destroyed.
  hello_timer_->async_wait(
      while_alive(std::weak_ptr(connection_),
                  [this, hello_limit, &connection = *connection_](error_code error) {
                    if (error || !connection.is_open() || !hello_timer_) return;
                    reject("no hello within " + to_text(hello_limit));
                  }));
  connection_->start();
}

agent_session::~agent_session() {
  newcomers_->leave(place_);
  // A session that has finished keeps its connection until its last message has left.
  if (connection_->is_open()) connection_->close();
}

void agent_session::let_go() {
  connection_->close();
  end("it was the oldest of many connections without a complete hello");
}

// The owner may destroy this session in each call, so each call is the last thing done here.
void agent_session::take_line(std::string_view line) {
  std::string problem;
  auto message = protocol::decode_agent_message(line, &problem);
  // Wait for the hello before answering: an agent in a run gets a reply it survives, and tries the
  // next endpoint, while a newcomer is refused for good.
  if (!turned_away_.empty()) {
    const hello* const greeting = message ? std::get_if<hello>(&*message) : nullptr;
    const bool is_in_a_run = greeting != nullptr && greeting->state.instance != 0;
    return is_in_a_run ? send_elsewhere(turned_away_) : reject(turned_away_);
  }
  if (!message) {
    if (message.error() == errc::version_mismatch) owner_.on_other_version(*this, problem);
    return reject(problem);
  }
  const bool is_first = hello_timer_ != nullptr;
  const bool opens =
      std::holds_alternative<hello>(*message) || std::holds_alternative<guardian_word>(*message);
  const bool goes_on =
      std::holds_alternative<status>(*message) || std::holds_alternative<goodbye>(*message);
  if (!opens && !goes_on) {
    return reject("a tether belongs to the leader of the round; this is the daemon's port");
  }
  if (is_first && !opens) return reject("the first message of a session is its hello");
  if (!is_first && opens) return reject("a session says hello once");
  hello_timer_.reset();
  // The peer has a session now: it may not be evicted, and may send long lines.
  newcomers_->leave(place_);
  connection_->set_line_limit(line_bytes_max);
  owner_.on_message(*this, std::move(*message));
}

void agent_session::set_node_timeout(duration limit) {
  connection_->set_stall_limit(limit);
  connection_->set_keep_alive(net::keep_alive_for(limit));
}

void agent_session::reject(const std::string& text) {
  refuse(text);
  owner_.on_end(*this, text);
}

void agent_session::send_elsewhere(const std::string& text) {
  const daemon_message message = not_primary{text};
  send(message.index(), std::make_shared<const std::string>(protocol::encode(message)));
  finish();
  owner_.on_end(*this, text);
}

void agent_session::end(const std::string& why) {
  owner_.on_end(*this, why);
}

void agent_session::refuse(const std::string& text) {
  const daemon_message message = refused{refused_exit_code, text};
  send(message.index(), std::make_shared<const std::string>(protocol::encode(message)));
  finish();
}

void agent_session::finish() {
  hello_timer_.reset();
  newcomers_->leave(place_);
  if (!connection_->is_open()) return;
  // While its last message leaves, the peer may be evicted again.
  const auto leaving = newcomers_->enter(while_alive(
      std::weak_ptr(connection_), [&connection = *connection_] { connection.break_off(); }));
  connection_->finish(last_words_limit, [room = newcomers_, leaving] { room->leave(leaving); });
}

}  // namespace ddprun::server
