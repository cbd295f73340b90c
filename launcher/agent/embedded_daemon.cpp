#include "launcher/agent/embedded_daemon.hpp"

#include "launcher/agent/descriptor_needs.hpp"
#include "launcher/network/listen_addresses.hpp"
#include "launcher/network/own_addresses.hpp"
#include "launcher/network/round_port.hpp"
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

// A port in use is tried again like a round's: the previous job may be about to end.
constexpr std::int64_t tries_max = round_port::busy_limit / round_port::pause_between_tries;

// How long this host's own name is looked up before it is assumed to mean this host.
constexpr auto own_name_limit = std::chrono::seconds(2);

// A loopback endpoint listens on it only. In the static form, an address of this host serves only
// clients that dial it. Otherwise the daemon listens on every interface: empty.
std::vector<std::string> addresses_for(const daemon_search& search) {
  if (search.standalone) return {"127.0.0.1"};
  const auto numeric = net::numeric_address(search.endpoint.host);
  if (numeric && search.is_static) return listen_addresses({*numeric});
  if (numeric && numeric->is_loopback()) return {search.endpoint.host};
  return {};
}

// The address by which this agent dials its own daemon.
std::string own_way(const std::vector<std::string>& all) {
  const bool has_loopback = std::find(all.begin(), all.end(), "127.0.0.1") != all.end();
  return all.empty() || has_loopback ? "127.0.0.1" : all.front();
}

// Why the static form cannot listen on the given address only. Empty: it can.
std::string why_everywhere(const daemon_search& search, const std::vector<std::string>& all) {
  if (!search.is_static || !all.empty()) return {};
  const bool is_name = !net::numeric_address(search.endpoint.host);
  return "the daemon listens on every interface: " + search.endpoint.host +
         (is_name ? " is a name, and other nodes may know this host by another of its addresses"
                  : " is not an address of this host; connections to it may come through any");
}

}  // namespace

embedded_daemon::embedded_daemon(boost::asio::any_io_executor main, socket_thread& thread,
                                 daemon_search search, log_handler log)
    : main_(main),
      thread_(thread),
      search_(std::move(search)),
      log_(std::move(log)),
      resolver_(main),
      retry_(main) {}

embedded_daemon::~embedded_daemon() {
  // The server belongs to the socket thread, and may be destroyed only after it has ended.
  thread_.stop();
}

void embedded_daemon::find(place_handler found) {
  found_ = std::move(found);
  waits_for_look_up_ = true;
  if (search_.standalone || search_.embed != embed_policy::automatic) {
    return boost::asio::post(main_, [this] { know(search_.standalone); });
  }
  // Another host may have the same name. If the name points there, the daemon is not here.
  if (is_own_name(search_.endpoint.host)) {
    retry_.expires_after(own_name_limit);
    retry_.async_wait([this](error_code cancelled) {
      if (!cancelled && waits_for_look_up_) looked_up(boost::asio::error::timed_out, {});
    });
  }
  look_up();
}

void embedded_daemon::find_again(duration delay, std::optional<started_job> job,
                                 std::size_t of_round, place_handler found) {
  of_round_ = of_round;
  if (job) search_.opened_by.job = std::move(*job);
  found_ = std::move(found);
  is_first_ = false;
  if (!hosts_ && search_.embed == embed_policy::automatic) look_up();
  retry_.expires_after(delay);
  retry_.async_wait([this](error_code cancelled) {
    if (!cancelled) hosts_ ? answer(own_place_) : decide();
  });
}

void embedded_daemon::stop_finding() {
  found_ = nullptr;
  waits_for_look_up_ = false;
  retry_.cancel();
  tries_left_ = 0;  // also ends an attempt in progress
}

void embedded_daemon::answer(daemon_place place) {
  if (const place_handler told = std::exchange(found_, nullptr)) told(std::move(place));
}

// One lookup at a time, because a name service may take longer than the pause between attempts.
void embedded_daemon::look_up() {
  if (std::exchange(is_looking_, true)) return;
  resolver_.start(search_.endpoint.host, search_.endpoint.port,
                  [this](error_code error, const net::endpoints& endpoints) {
                    is_looking_ = false;
                    looked_up(error, endpoints);
                  });
}

void embedded_daemon::looked_up(error_code error, const net::endpoints& endpoints) {
  if (!error) {
    return know(std::any_of(endpoints.begin(), endpoints.end(), [](const net::tcp::endpoint& each) {
      return is_own_address(each.address());
    }));
  }
  const bool is_ours = is_own_name(search_.endpoint.host);
  if (is_ours && waits_for_look_up_ && search_.nodes_max > 1) {
    log_(note_level::info, "the endpoint's host name, " + search_.endpoint.host +
                               ", does not resolve, but it is this host's name: the daemon runs "
                               "here; if another host is meant, give its address as the endpoint");
  }
  // If the name service does not answer, the last answer stays valid.
  know(is_ours || is_own_);
}

void embedded_daemon::know(bool is_own) {
  is_own_ = is_own;
  if (!std::exchange(waits_for_look_up_, false)) return;
  retry_.cancel();
  tries_left_ = tries_max;
  decide();
}

void embedded_daemon::decide() {
  const bool wanted = search_.standalone || search_.embed == embed_policy::always ||
                      (search_.embed == embed_policy::automatic && is_own_);
  wanted ? open() : answer({search_.endpoint.host, search_.endpoint.port});
}

// False: there are no tries left.
bool embedded_daemon::try_again(const std::string& problem) {
  if (tries_left_ == 0) return false;
  if (tries_left_ == tries_max) {
    log_(note_level::warning, problem + "; trying for " + to_text(round_port::busy_limit));
  }
  --tries_left_;
  retry_.expires_after(round_port::pause_between_tries);
  retry_.async_wait([this](error_code cancelled) {
    if (!cancelled) open();
  });
  return true;
}

// False: there is no further port.
bool embedded_daemon::take_next_port() {
  if (search_.more_ports.empty()) return false;
  const std::uint16_t next = search_.more_ports.front();
  log_(note_level::info, "another program uses port " + std::to_string(search_.endpoint.port) +
                             " on this host: the rendezvous daemon will use port " +
                             std::to_string(next));
  search_.more_ports.erase(search_.more_ports.begin());
  search_.endpoint.port = next;
  return true;
}

bool embedded_daemon::prepare_to_open() {
  connections_max_ = is_first_ ? daemon_connections(search_.nodes_max, search_.own_workers)
                               : later_daemon_connections(search_.own_workers, of_round_);
  addresses_ = addresses_for(search_);
  if (!has_descriptors_for_nodes(search_.nodes_max, search_.own_workers) &&
      !std::exchange(has_warned_, true)) {
    log_(note_level::warning, "this process may open too few file descriptors for " +
                                  counted(search_.nodes_max, "node") +
                                  ": raise the hard limit (ulimit -Hn)");
  }
  if (const error_code error = thread_.start()) {
    opened(error, net::thread_problem("the rendezvous daemon in this process", error));
    return false;
  }
  if (const std::string why = why_everywhere(search_, addresses_); !why.empty())
    log_(note_level::debug, why);
  return true;
}

server::server_options embedded_daemon::options_of_server() {
  // A port that the kernel chooses differs next time, so a journal would not be found again.
  const std::string folder = search_.standalone || search_.endpoint.port == 0
                                 ? std::string()
                                 : journal::default_state_folder(
                                       std::getenv, net::short_host_name(), search_.endpoint.port);
  server::server_options options;
  if (!addresses_.empty()) {
    options.bind_address = addresses_.front();
    options.more_addresses.assign(addresses_.begin() + 1, addresses_.end());
  }
  options.port = search_.standalone ? std::uint16_t{0} : search_.endpoint.port;
  options.connections_max = connections_max_;
  options.tcpstore = search_.round_service;
  options.tether = search_.round_service;
  options.daemon.allows_other_users = search_.allows_other_users;
  if (!folder.empty())
    options.daemon.open_journal_in_background = journal::in_folder_in_background(folder, true);
  options.daemon.window_without_journal = duration::zero();
  options.daemon.opened_by = search_.opened_by;
  // The agent prints what matters to the user; the daemon's own lines are only for debugging.
  options.daemon.log = [this](note_level, const std::string& text) {
    boost::asio::post(main_, [this, text] { log_(note_level::debug, "daemon: " + text); });
  };
  options.daemon.journal_log = [this](note_level level, const std::string& text) {
    const auto shown = level == note_level::error ? note_level::warning : note_level::debug;
    boost::asio::post(main_,
                      [this, shown, text] { log_(shown, "the daemon in this process: " + text); });
  };
  return options;
}

void embedded_daemon::open() {
  if (!prepare_to_open()) return;
  boost::asio::post(thread_.context(), [this, options = options_of_server()]() mutable {
    auto made = std::make_unique<server::server>(thread_.executor(), std::move(options));
    std::string problem;
    // Opened in the background: the tethers of a running round are served on this thread, and
    // opening the journal may take long.
    const error_code error = made->start_in_background(problem, [this](std::uint16_t port) {
      boost::asio::post(main_, [this, port] { opened(port, {}); });
    });
    if (error) return boost::asio::post(main_, [this, error, problem] { opened(error, problem); });
    server_ = std::move(made);
  });
}

void embedded_daemon::opened(const result<std::uint16_t>& port, const std::string& problem) {
  if (port) {
    hosts_ = true;
    own_place_ = {own_way(addresses_), *port};
    if (!is_first_) {
      log_(note_level::info,
           "the rendezvous daemon at " + to_text(search_.endpoint) +
               " is in this process from now on, because no other process held it");
    }
    return answer(own_place_);
  }
  // The port is in use: by the daemon, or by a stranger, which the attempt to connect will report.
  const bool taken = port.error() == boost::system::errc::address_in_use;
  const bool is_for_others = taken && search_.embed != embed_policy::always;
  if (!is_for_others && is_first_) {
    if (taken && take_next_port()) return open();
    if (taken && try_again(problem)) return;
    return answer({{}, 0, problem, port.error()});
  }
  if (!taken && !std::exchange(has_warned_, true)) {
    log_(note_level::warning, "cannot start the rendezvous daemon in this process: " + problem);
  }
  answer({search_.endpoint.host, search_.endpoint.port});
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
  stop_finding();
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
