#include "launcher/agent/daemon_finder.hpp"

#include "rendezvous/base/exit_codes.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr auto said_first_after = std::chrono::seconds(2);
constexpr auto said_again_after_max = std::chrono::seconds(30);

std::string text_of_ports(const std::vector<std::uint16_t>& ports) {
  std::string text;
  for (std::size_t index = 0; index < ports.size(); ++index) {
    if (index != 0) text += index + 1 == ports.size() ? " or " : ", ";
    text += std::to_string(ports[index]);
  }
  return text;
}

// A node that opens no daemon has to find the port at which another node has one.
std::vector<std::uint16_t> ports_to_search(const daemon_search& search) {
  if (search.more_ports.empty() || search.embed != embed_policy::never) return {};
  std::vector<std::uint16_t> ports = {search.endpoint.port};
  ports.insert(ports.end(), search.more_ports.begin(), search.more_ports.end());
  return ports;
}

}  // namespace

daemon_finder::daemon_finder(boost::asio::any_io_executor main, socket_thread& thread,
                             daemon_search search, duration search_limit, log_handler log)
    : main_(main),
      search_limit_(search_limit),
      log_(std::move(log)),
      endpoint_(search.endpoint),
      ports_(ports_to_search(search)),
      run_id_(search.opened_by.run_id),
      is_static_(search.is_static),
      embedded_(main, thread, std::move(search), log_),
      say_timer_(main) {}

void daemon_finder::find(place_handler found) {
  ports_.empty() ? open_or_dial(std::move(found)) : search_ports(std::move(found));
}

void daemon_finder::find_again(duration delay, std::optional<started_job> job, std::size_t of_round,
                               place_handler found) {
  embedded_.find_again(delay, std::move(job), of_round,
                       [this, found = std::move(found)](daemon_place place) {
                         place_ = place;
                         found(std::move(place));
                       });
}

void daemon_finder::stop() {
  is_searching_ = false;
  if (search_) search_->stop();
  say_timer_.cancel();
  embedded_.stop_finding();
}

void daemon_finder::open_or_dial(place_handler found) {
  embedded_.find([this, found = std::move(found)](daemon_place place) {
    if (place.problem.empty()) {
      place_ = place;
    } else if (is_static_ && place.error == boost::system::errc::address_in_use) {
      place.problem +=
          ": by another program, or by another node with --node-rank 0 on this host; choose "
          "another --master-port, or another rank";
    }
    found(std::move(place));
  });
}

void daemon_finder::search_ports(place_handler found) {
  is_searching_ = true;
  search_.emplace(main_, endpoint_.host, ports_, run_id_);
  search_->start(search_limit_,
                 [this, found = std::move(found)](std::uint16_t port, const std::string& problem) {
                   is_searching_ = false;
                   say_timer_.cancel();
                   if (port == 0) {
                     daemon_place where;
                     where.problem = "run " + run_id_ + " was not found at any port of " +
                                     endpoint_.host + " within join_timeout: " + problem;
                     where.exit_code = unmet_exit_code;
                     return found(std::move(where));
                   }
                   embedded_.is_at(port);
                   open_or_dial(found);
                 });
  say_search(said_first_after);
}

void daemon_finder::say_search(duration after) {
  say_timer_.expires_after(after);
  say_timer_.async_wait([this, after](boost::system::error_code error) {
    if (error || !is_searching_) return;
    log_(note_level::info, "waiting for the rendezvous daemon of run " + run_id_ + " on " +
                               endpoint_.host + ", at port " + text_of_ports(ports_));
    say_search(std::min<duration>(2 * after, said_again_after_max));
  });
}

}  // namespace ddprun::launcher
