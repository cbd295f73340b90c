#include "launcher/agent/round_service.hpp"

#include "launcher/agent/descriptor_needs.hpp"
#include "launcher/network/free_port.hpp"
#include "launcher/network/listen_addresses.hpp"
#include "launcher/network/round_port.hpp"
#include "launcher/process/start_failure.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/client/tether_host.hpp"
#include "rendezvous/net/resolve.hpp"
#include "rendezvous/net/threads.hpp"
#include "rendezvous/server/protocol_router.hpp"
#include "rendezvous/store/store_thread.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

// How long a closed round waits for clients that do not close.
constexpr auto store_linger = std::chrono::seconds(2);
// As often as a port.
constexpr std::int64_t store_tries = round_port::busy_limit / round_port::pause_between_tries;
// Connections beyond the limit while the store's thread closes others for them.
constexpr std::size_t newcomers_max = 8;
// For each member, because the tether of a broken connection may still be open.
constexpr std::size_t tethers_per_member = 2;
constexpr std::size_t tethers_min = 16;

std::size_t at_least_0(std::size_t from, std::size_t less) {
  return from - std::min(from, less);
}

}  // namespace

// Everything here except `post_*` runs on the socket thread.
struct round_service::state : std::enable_shared_from_this<round_service::state> {
  using tcp = net::tcp;

  state(boost::asio::any_io_executor to_main, boost::asio::any_io_executor own,
        round_service_options values, event_handler event, log_handler text)
      : main(std::move(to_main)),
        here(std::move(own)),
        options(values),
        happened(std::move(event)),
        log(std::move(text)),
        resolver(here),
        retry(here),
        port(here, options.store == store_mode::agent ? options.master_port : 0,
             net::keep_alive_for(options.node_timeout),
             {[this](std::uint16_t number, const std::string& problem) {
                port_opened(number, problem);
              },
              [this](tcp::socket socket) { accept(std::move(socket)); },
              [this](const std::string& line) { post_log(note_level::warning, line); }}) {}

  void open(const core::open_service& service, std::size_t of_daemon) {
    close_now();
    const std::string shortage = descriptor_problem(service, options.own_workers, of_daemon);
    if (!shortage.empty()) {
      return post_event(core::service_failed{service.round, shortage});
    }
    wanted = service;
    round = wanted.round;
    connections_max = round_connections(options.own_workers, of_daemon);
    mute_max = mute_connections(wanted);
    // Clients that linger in older rounds give way to the workers of the new one.
    if (old_connections() + needed_connections(wanted) > connections_max) cut_old();
    start_store(store_tries);
  }

  // A shortage may pass in a moment, and must not cost a restart.
  void start_store(std::int64_t tries) {
    error_code error;
    if (options.store == store_mode::agent) error = store.start();
    if (!error) return find_addresses();
    const std::string problem = net::thread_problem("the job store", error);
    if (!is_shortage(error.value()) || tries == 0) return fail(problem);
    if (tries == store_tries) {
      post_log(note_level::warning, problem + "; trying for " + to_text(round_port::busy_limit));
    }
    retry.expires_after(round_port::pause_between_tries);
    retry.async_wait(
        while_alive(weak_from_this(), [this, number = round, tries](error_code cancelled) {
          if (!cancelled && round == number) start_store(tries - 1);
        }));
  }

  void find_addresses() {
    // In the static form the round uses the daemon's port, which is open already.
    if (options.has_daemons_port) return port_opened(options.master_port, {});
    find_listen_addresses(
        resolver, wanted.master_address, wanted.group_world_size > 1,
        [this](std::vector<std::string> addresses) { port.open(std::move(addresses)); });
  }

  void port_opened(std::uint16_t number, const std::string& problem) {
    if (number == 0) return fail(problem);
    std::uint16_t master_port = number;
    // The worker with rank 0 opens MASTER_PORT itself, and our port is for tethers only.
    if (options.store == store_mode::worker) {
      master_port =
          options.master_port != 0 ? options.master_port : unused_static_port(options.seed + round);
      if (master_port == 0) return fail("no free port for the workers' store");
    }
    start_round();
    post_event(core::service_opened{round, number, master_port, {}});
  }

  void fail(std::string problem) {
    port.close();
    post_event(core::service_failed{std::exchange(round, 0), std::move(problem)});
  }

  client::tether_host::handlers tether_handlers() {
    client::tether_host::handlers told;
    told.attached = while_alive(weak_from_this(), [this](std::uint64_t tether, tether_hello hello) {
      post_event(core::member_attached{tether, std::move(hello)});
    });
    told.beat = while_alive(weak_from_this(), [this](std::uint64_t tether, tether_beat word) {
      post_event(core::member_beat{tether, word});
    });
    told.detached = while_alive(weak_from_this(), [this](std::uint64_t tether) {
      post_event(core::member_detached{tether});
    });
    told.stranger = while_alive(weak_from_this(), [this](std::string text) {
      post_log(note_level::debug, std::move(text));
    });
    return told;
  }

  void start_round() {
    // One host serves all rounds, so that tether numbers are never reused: late events about a
    // tether of an earlier round match none.
    if (!tethers) tethers.emplace(tether_handlers());
    tethers->let_in_other_users(options.allows_other_users);
    tethers->set_tethers_max(std::max(tethers_min, tethers_per_member * wanted.group_world_size));
    if (options.store == store_mode::agent) {
      store::keyspace_options values;
      // Called on the store's thread, which must not destroy the state that owns it: so it holds a
      // weak pointer.
      values.log = [this, alive = weak_from_this(), to = main](note_level level,
                                                               const std::string& text) {
        boost::asio::post(to, while_alive(alive, [this, level, text] {
                            if (log) log(level, "job store: " + text);
                          }));
      };
      space = std::make_shared<store::keyspace>(std::move(values));
    }
    server::protocol_router_handlers sorted;
    sorted.agent = [this](tcp::socket socket) { tethers->accept(std::move(socket)); };
    if (space) {
      sorted.tcpstore = [this](tcp::socket socket) {
        if (const error_code error = store.serve(std::move(socket), space)) {
          post_log(note_level::warning, "closed a TCPStore client: " + error.message());
        }
      };
    }
    sorted.log = while_alive(weak_from_this(), [this](note_level, const std::string& text) {
      post_log(note_level::debug, "the round's port: " + text);
    });
    door.emplace(std::move(sorted));
  }

  std::size_t connections() const {
    return door->waiting() + tethers->size() + (space ? space->connection_count() : 0) +
           old_connections();
  }

  // Connections of closed rounds whose clients have not left yet.
  std::size_t old_connections() const {
    std::size_t count = 0;
    for (const auto& [id, old] : lingering)
      count += old.space->connection_count();
    return count;
  }

  void cut_old() {
    for (const auto& [id, old] : lingering)
      store.post([space = old.space] { space->cut(); });
  }

  // Makes room for one more. The oldest idle connection is closed first, here or on the store's
  // thread.
  void make_room() {
    for (;;) {
      const std::size_t mute = door->waiting() + (space ? space->mute_count() : 0);
      const bool full = connections() >= connections_max;
      if (mute < mute_max && !full) return;
      if (full && old_connections() != 0) {
        cut_old();
        if (mute < mute_max) return;  // there will be room in a moment
      }
      if (door->waiting() == 0) break;
      if (space && space->oldest_mute() < door->oldest()) break;
      door->close_oldest();
    }
    if (!space) return;
    const std::size_t others = door->waiting() + tethers->size() + old_connections();
    store.post(
        [held = space, mute_left = at_least_0(mute_max, door->waiting() + 1),
         left = at_least_0(connections_max, others + 1)] { held->cut_mute(mute_left, left); });
  }

  void accept(tcp::socket socket) {
    make_room();
    const std::size_t open = connections();
    if (open >= connections_max + newcomers_max) {
      const auto line = turned_away.admit(turned_away_text(open), std::chrono::steady_clock::now());
      if (line) post_log(note_level::warning, *line);
      return;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    door->accept(std::move(socket));
  }

  void close_now() {
    resolver.cancel();
    retry.cancel();
    port.pause();
    door.reset();
    if (tethers) tethers->drop_all();
    round = 0;
    const auto old = std::exchange(space, nullptr);
    if (old && store.started()) close_store(old);
  }

  // Sends pending answers; clients that stay are cut in the end.
  void close_store(std::shared_ptr<store::keyspace> old) {
    const std::uint64_t id = ++last_lingerer;
    auto& timer = lingering.try_emplace(id, here, old).first->second.timer;
    timer.expires_after(store_linger);
    timer.async_wait([self = shared_from_this(), old](error_code error) {
      if (!error) self->store.post([old] { old->cut(); });
    });
    store.post([this, old, where = here, alive = weak_from_this(), id] {
      old->finish();
      old->when_empty([this, where, alive, id] {
        boost::asio::post(where, while_alive(alive, [this, id] { store_closed(id); }));
      });
    });
  }

  void store_closed(std::uint64_t id) {
    lingering.erase(id);
    if (lingering.empty()) closed();
  }

  void closed() {
    if (on_closed.empty()) return;
    for (auto& each : std::exchange(on_closed, {}))
      boost::asio::post(main, std::move(each));
    store.stop();
  }

  // The queue of the main loop must not own this: it may outlive the loop of the socket thread, to
  // which sockets and timers here belong.
  void post_event(core::agent_event event) {
    boost::asio::post(main,
                      while_alive(weak_from_this(), [this, event = std::move(event)]() mutable {
                        if (happened) happened(std::move(event));
                      }));
  }

  void post_log(note_level level, std::string text) {
    boost::asio::post(
        main, while_alive(weak_from_this(), [this, level, text = std::move(text)]() mutable {
          if (log) log(level, std::move(text));
        }));
  }

  boost::asio::any_io_executor main;
  boost::asio::any_io_executor here;
  const round_service_options options;
  event_handler happened;  // main thread
  log_handler log;         // main thread

  round_number round = 0;
  core::open_service wanted;
  std::size_t connections_max = 0;  // of all kinds
  std::size_t mute_max = 0;         // idle from the start
  log_limit turned_away;
  net::resolver resolver;
  boost::asio::steady_timer retry;
  round_port port;
  std::optional<client::tether_host> tethers;
  std::shared_ptr<store::keyspace> space;
  std::optional<server::protocol_router> door;
  store::store_thread store;
  struct closed_store {
    closed_store(const boost::asio::any_io_executor& where, std::shared_ptr<store::keyspace> old)
        : timer(where), space(std::move(old)) {}
    boost::asio::steady_timer timer;
    std::shared_ptr<store::keyspace> space;
  };
  std::map<std::uint64_t, closed_store> lingering;  // still with clients
  std::uint64_t last_lingerer = 0;
  std::vector<std::function<void()>> on_closed;
};

round_service::round_service(boost::asio::any_io_executor main, socket_thread& thread,
                             round_service_options options, event_handler happened, log_handler log)
    : thread_(thread),
      state_(std::make_shared<state>(std::move(main), thread.executor(), options,
                                     std::move(happened), std::move(log))) {}

round_service::~round_service() {
  // Queued events are dropped.
  state_->happened = nullptr;
  state_->log = nullptr;
  boost::asio::post(state_->here, [state = state_] {
    state->close_now();
    state->port.close();
  });
}

void round_service::warm_up() {
  if (!thread_.started() || state_->options.store != store_mode::agent) return;
  boost::asio::post(state_->here, [state = state_] { (void)state->store.start(); });
}

void round_service::open(const core::open_service& wanted, std::size_t of_daemon) {
  if (const error_code error = thread_.start()) {
    return state_->post_event(
        core::service_failed{wanted.round, net::thread_problem("the round's service", error)});
  }
  boost::asio::post(state_->here,
                    [state = state_, wanted, of_daemon] { state->open(wanted, of_daemon); });
}

void round_service::make_room(std::size_t of_daemon) {
  boost::asio::post(state_->here, [state = state_, of_daemon] {
    const std::size_t left = round_connections(state->options.own_workers, of_daemon);
    state->connections_max = std::max(left, needed_connections(state->wanted));
  });
}

std::function<void(net::tcp::socket)> round_service::take_in() const {
  return [weak = std::weak_ptr(state_)](net::tcp::socket socket) {
    const auto held = weak.lock();
    if (held && held->door) held->accept(std::move(socket));
  };
}

// TCPStore's clients put a slash in front of each key.
void round_service::put(std::string key, std::string value) {
  key.insert(key.begin(), '/');
  boost::asio::post(
      state_->here, [state = state_, key = std::move(key), value = std::move(value)]() mutable {
        if (!state->space) return;
        state->store.post([held = state->space, key = std::move(key), value = std::move(value)] {
          held->values().set(key, value);
        });
      });
}

void round_service::close(round_number round) {
  boost::asio::post(state_->here, [state = state_, round] {
    if (state->round == round) state->close_now();
  });
}

void round_service::when_closed(std::function<void()> done) {
  if (!thread_.started()) return boost::asio::post(state_->main, std::move(done));
  boost::asio::post(state_->here, [state = state_, done = std::move(done)]() mutable {
    state->port.close();
    state->on_closed.push_back(std::move(done));
    if (state->lingering.empty()) state->closed();
  });
}

void round_service::let_go_of_port() {
  if (!thread_.started()) return;
  boost::asio::post(state_->here, [state = state_] {
    if (state->round == 0) state->port.close();
  });
}

void round_service::answer(std::uint64_t tether, std::uint64_t seq) {
  boost::asio::post(state_->here, [state = state_, tether, seq] {
    if (state->tethers) state->tethers->answer(tether, seq);
  });
}

void round_service::refuse(std::uint64_t tether, std::string text) {
  boost::asio::post(state_->here, [state = state_, tether, text = std::move(text)] {
    if (state->tethers) state->tethers->refuse(tether, text);
  });
}

void round_service::drop_members() {
  boost::asio::post(state_->here, [state = state_] {
    if (state->tethers) state->tethers->drop_all();
  });
}

}  // namespace ddprun::launcher
