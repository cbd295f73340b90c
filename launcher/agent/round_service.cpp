#include "launcher/agent/round_service.hpp"

#include "launcher/agent/descriptor_needs.hpp"
#include "launcher/agent/free_port.hpp"
#include "rendezvous/backend/tether_host.hpp"
#include "rendezvous/net/listener.hpp"
#include "rendezvous/server/front_door.hpp"
#include "rendezvous/store/session.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <list>
#include <optional>
#include <sys/socket.h>
#include <utility>

namespace ddprun {
namespace {

// How long a closed round waits for clients that do not close.
constexpr auto store_linger = std::chrono::seconds(2);

}  // namespace

// Everything here but `post_*` runs on the service thread.
struct round_service::state : std::enable_shared_from_this<round_service::state> {
  using tcp = net::tcp;

  state(boost::asio::any_io_executor to_main, boost::asio::any_io_executor own,
        round_service_options values, event_handler event, log_handler text)
      : main(std::move(to_main)),
        here(std::move(own)),
        options(values),
        happened(std::move(event)),
        log(std::move(text)) {}

  void open(const core::open_service& wanted) {
    close_now();
    const std::string shortage = descriptor_problem(wanted, options.own_workers);
    if (!shortage.empty()) {
      return post_event(core::service_failed{wanted.round, shortage});
    }
    listener.emplace(here);
    std::string problem;
    const std::uint16_t port = options.store == store_mode::agent ? options.master_port : 0;
    const result<std::uint16_t> opened = listener->open("", port, problem);
    if (!opened) {
      listener.reset();
      return post_event(core::service_failed{wanted.round, problem});
    }
    std::uint16_t master_port = *opened;
    if (options.store == store_mode::worker) {
      master_port = options.master_port != 0 ? options.master_port
                                             : unused_static_port(options.seed + wanted.round);
      if (master_port == 0) {
        listener.reset();
        return post_event(
            core::service_failed{wanted.round, "no free port for the workers' store"});
      }
    }
    round = wanted.round;
    start_round();
    post_event(core::service_opened{round, *opened, master_port, {}});
  }

  void start_round() {
    const std::weak_ptr<state> weak = weak_from_this();
    tethers.emplace(
        backend::tether_host::handlers{[weak](std::uint64_t tether, tether_hello hello) {
                                         if (auto self = weak.lock())
                                           self->post_event(core::member_attached{tether, hello});
                                       },
                                       [weak](std::uint64_t tether, std::uint64_t seq) {
                                         if (auto self = weak.lock())
                                           self->post_event(core::member_beat{tether, seq});
                                       },
                                       [weak](std::uint64_t tether) {
                                         if (auto self = weak.lock())
                                           self->post_event(core::member_detached{tether});
                                       },
                                       [weak](std::string text) {
                                         if (auto self = weak.lock())
                                           self->post_log(note_level::debug, std::move(text));
                                       }});
    if (options.store == store_mode::agent) {
      store::keyspace_options values;
      values.log = [weak](note_level level, const std::string& text) {
        if (auto self = weak.lock()) self->post_log(level, "job store: " + text);
      };
      space = std::make_shared<store::keyspace>(std::move(values));
    }
    server::front_door_handlers sorted;
    sorted.agent = [this](tcp::socket socket) { tethers->accept(std::move(socket)); };
    if (space) {
      sorted.tcpstore = [this](tcp::socket socket) {
        store::start_session(std::move(socket), space, {});
      };
    }
    sorted.log = [weak](note_level, const std::string& text) {
      if (auto self = weak.lock()) self->post_log(note_level::debug, "the round's port: " + text);
    };
    door.emplace(std::move(sorted));
    net::listener_handlers handlers;
    handlers.on_accept = [this](tcp::socket socket) {
      error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      door->accept(std::move(socket));
    };
    handlers.on_trouble = [weak](const std::string& text) {
      if (auto self = weak.lock()) self->post_log(note_level::warning, text);
    };
    listener->start(std::move(handlers));
  }

  void close_now() {
    listener.reset();
    door.reset();
    tethers.reset();
    round = 0;
    if (!space) return;
    std::shared_ptr<store::keyspace> old = std::exchange(space, nullptr);
    old->finish();
    ++lingering;
    auto timer = std::make_shared<boost::asio::steady_timer>(here, store_linger);
    timer->async_wait([old](error_code error) {
      if (!error) old->cut();
    });
    old->when_empty([self = shared_from_this(), timer] {
      timer->cancel();
      if (--self->lingering == 0) self->closed();
    });
  }

  void closed() {
    for (auto& each : std::exchange(on_closed, {}))
      boost::asio::post(main, std::move(each));
  }

  void post_event(core::member_event event) {
    boost::asio::post(main, [self = shared_from_this(), event = std::move(event)]() mutable {
      if (self->happened) self->happened(std::move(event));
    });
  }

  void post_log(note_level level, std::string text) {
    boost::asio::post(main, [self = shared_from_this(), level, text = std::move(text)]() mutable {
      if (self->log) self->log(level, std::move(text));
    });
  }

  boost::asio::any_io_executor main;
  boost::asio::any_io_executor here;
  const round_service_options options;
  event_handler happened;  // main thread
  log_handler log;         // main thread

  round_number round = 0;
  std::optional<net::listener> listener;
  std::optional<backend::tether_host> tethers;
  std::shared_ptr<store::keyspace> space;
  std::optional<server::front_door> door;
  int lingering = 0;
  std::vector<std::function<void()>> on_closed;
};

round_service::round_service(boost::asio::any_io_executor main, service_thread& thread,
                             round_service_options options, event_handler happened, log_handler log)
    : thread_(thread),
      state_(std::make_shared<state>(std::move(main), thread.executor(), options,
                                     std::move(happened), std::move(log))) {}

round_service::~round_service() {
  // Events that are on their way find nobody.
  state_->happened = nullptr;
  state_->log = nullptr;
  boost::asio::post(state_->here, [state = state_] { state->close_now(); });
}

void round_service::open(const core::open_service& wanted) {
  thread_.start();
  boost::asio::post(state_->here, [state = state_, wanted] { state->open(wanted); });
}

void round_service::close(round_number round) {
  boost::asio::post(state_->here, [state = state_, round] {
    if (state->round == round) state->close_now();
  });
}

void round_service::when_closed(std::function<void()> done) {
  if (!thread_.started()) {
    boost::asio::post(state_->main, std::move(done));
    return;
  }
  boost::asio::post(state_->here, [state = state_, done = std::move(done)]() mutable {
    state->on_closed.push_back(std::move(done));
    if (state->lingering == 0) state->closed();
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

}  // namespace ddprun
