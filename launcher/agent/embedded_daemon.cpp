#include "launcher/agent/embedded_daemon.hpp"

#include "launcher/agent/descriptor_needs.hpp"
#include "launcher/agent/own_addresses.hpp"
#include "launcher/agent/round_port.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/journal/sqlite_journal.hpp"
#include "rendezvous/journal/state_folder.hpp"
#include "rendezvous/net/host_name.hpp"
#include "rendezvous/net/threads.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::address;

// A port in use is tried again as a round's is: the job before this one may be about to end.
constexpr std::int64_t tries_max = round_port::busy_limit / round_port::pause_between_tries;

// How long this host's own name is looked up, before it is taken for just that.
constexpr auto own_name_limit = std::chrono::seconds(2);

// Only for this host where the endpoint says so; else for all that can reach the port.
std::string bind_address(const daemon_search& search) {
  if (search.standalone) return "127.0.0.1";
  const auto numeric = net::numeric_address(search.endpoint.host);
  return numeric && numeric->is_loopback() ? search.endpoint.host : "";
}

}  // namespace

embedded_daemon::embedded_daemon(boost::asio::any_io_executor main, socket_thread& thread,
                                 log_handler log)
    : main_(main), thread_(thread), log_(std::move(log)), resolver_(main), retry_(main) {}

embedded_daemon::~embedded_daemon() {
  // The server belongs to the socket thread, or to nobody once that has ended.
  thread_.stop();
}

void embedded_daemon::find(const daemon_search& search, place_handler found) {
  const auto later = [this, search, found](bool is_own) {
    boost::asio::post(main_, [this, search, found, is_own] { decide(search, is_own, found); });
  };
  if (search.standalone || search.embed != embed_policy::automatic) return later(true);
  if (const auto numeric = net::numeric_address(search.endpoint.host)) {
    return later(is_own_address(*numeric));
  }
  // Another host may have the same name: where that leads there, the daemon is not here.
  if (is_own_name(search.endpoint.host)) {
    retry_.expires_after(own_name_limit);
    retry_.async_wait([this, search, found](error_code cancelled) {
      if (cancelled || is_found_by_name_) return;
      resolver_.cancel();
      find_by_name(search, found, boost::asio::error::timed_out, {});
    });
  }
  resolver_.start(search.endpoint.host, search.endpoint.port,
                  [this, search, found](error_code error, const net::endpoints& endpoints) {
                    find_by_name(search, found, error, endpoints);
                  });
}

void embedded_daemon::find_by_name(const daemon_search& search, const place_handler& found,
                                   error_code error, const net::endpoints& endpoints) {
  if (std::exchange(is_found_by_name_, true)) return;
  retry_.cancel();
  if (!error) {
    const bool is_own =
        std::any_of(endpoints.begin(), endpoints.end(),
                    [](const net::tcp::endpoint& each) { return is_own_address(each.address()); });
    return decide(search, is_own, found);
  }
  const bool is_ours = is_own_name(search.endpoint.host);
  if (is_ours && search.nodes_max > 1) {
    log_(note_level::info, "this host is called " + search.endpoint.host +
                               ", and no address is known for that name: the daemon is here; where "
                               "another host has that name, too, give its address as endpoint");
  }
  decide(search, is_ours, found);
}

void embedded_daemon::decide(const daemon_search& search, bool is_own, place_handler found) {
  const bool wanted = search.standalone || search.embed == embed_policy::always ||
                      (search.embed == embed_policy::automatic && is_own);
  if (!wanted) return found({search.endpoint.host, search.endpoint.port, {}});
  tries_left_ = tries_max;
  open(search, std::move(found));
}

// False: not any more.
bool embedded_daemon::try_again(const daemon_search& search, place_handler found,
                                const std::string& problem) {
  if (tries_left_ == 0) return false;
  if (tries_left_ == tries_max) {
    log_(note_level::warning, problem + "; trying for " + to_text(round_port::busy_limit));
  }
  --tries_left_;
  retry_.expires_after(round_port::pause_between_tries);
  retry_.async_wait([this, search, found = std::move(found)](error_code cancelled) {
    if (!cancelled) open(search, found);
  });
  return true;
}

void embedded_daemon::open(const daemon_search& search, place_handler found) {
  connections_max_ = daemon_connections(search.nodes_max, search.own_workers);
  if (!has_descriptors_for_nodes(search.nodes_max, search.own_workers)) {
    log_(note_level::warning, "this process may open too few file descriptors for " +
                                  counted(search.nodes_max, "node") +
                                  ": raise the hard limit (ulimit -Hn)");
  }
  if (const error_code error = thread_.start()) {
    return found({{}, 0, net::thread_problem("the rendezvous daemon in this process", error)});
  }
  // A port of its own choosing is found by nobody again.
  const std::string folder = search.standalone
                                 ? std::string()
                                 : journal::default_state_folder(
                                       std::getenv, net::short_host_name(), search.endpoint.port);
  boost::asio::post(
      thread_.context(), [this, search, folder, most = connections_max_, found = std::move(found)] {
        server::server_options options;
        options.bind_address = bind_address(search);
        options.port = search.standalone ? std::uint16_t{0} : search.endpoint.port;
        options.connections_max = most;
        options.tcpstore = search.job_store;
        if (!folder.empty()) options.daemon.open_journal = journal::in_folder(folder);
        options.daemon.window_without_journal = duration::zero();
        // The agent tells the person what matters of it; the daemon's own lines are for looking
        // closely.
        options.daemon.log = [this](note_level, const std::string& text) {
          boost::asio::post(main_, [this, text] { log_(note_level::debug, "daemon: " + text); });
        };
        options.daemon.journal_log = [this](note_level level, const std::string& text) {
          const auto shown = level == note_level::error ? note_level::warning : note_level::debug;
          boost::asio::post(
              main_, [this, shown, text] { log_(shown, "what the daemon here decides: " + text); });
        };
        auto opened = std::make_unique<server::server>(thread_.executor(), std::move(options));
        std::string problem;
        const result<std::uint16_t> port = opened->start(problem);
        if (port) server_ = std::move(opened);
        boost::asio::post(main_, [this, search, found, port, problem] {
          if (port) {
            hosts_ = true;
            const std::string bound = bind_address(search);
            return found({bound.empty() ? "127.0.0.1" : bound, *port, {}});
          }
          // Somebody listens there already: that is the daemon, or will be named as a stranger.
          const bool taken = port.error() == boost::system::errc::address_in_use;
          if (taken && search.embed != embed_policy::always) {
            return found({search.endpoint.host, search.endpoint.port, {}});
          }
          if (taken && try_again(search, found, problem)) return;
          found({{}, 0, problem});
        });
      });
}

void embedded_daemon::name_agents(const std::string& own_run, names_handler named) {
  if (!hosts_) return;
  boost::asio::post(thread_.context(), [this, own_run, named = std::move(named)]() mutable {
    std::vector<std::string> names = server_->joined_names(names_in_text_max, own_run);
    const std::size_t count = server_->joined_count();
    if (names.empty()) return;
    boost::asio::post(main_, [named = std::move(named), names = std::move(names), count] {
      named(names, count);
    });
  });
}

void embedded_daemon::close(duration linger, std::function<void()> done) {
  resolver_.cancel();
  retry_.cancel();
  tries_left_ = 0;  // for the one that may be under way
  if (!hosts_) {
    boost::asio::post(main_, std::move(done));
    return;
  }
  boost::asio::post(thread_.context(), [this, linger, done = std::move(done)]() mutable {
    auto limit = std::make_shared<boost::asio::steady_timer>(thread_.executor(), linger);
    limit->async_wait([this, limit, done = std::move(done)](error_code) {
      if (server_) server_->stop();
      boost::asio::post(main_, done);
    });
    server_->when_no_agents([limit] { limit->cancel(); });
  });
}

}  // namespace ddprun::launcher
