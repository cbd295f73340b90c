// If the daemon may be at one of several ports of a host, agents that do not open it first look for
// their run there. The port at which it was found is the endpoint from then on.
#include "launcher/agent/agent.hpp"
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

}  // namespace

void agent::search_ports() {
  std::vector<std::uint16_t> ports = {options_.endpoint.port};
  ports.insert(ports.end(), options_.more_ports.begin(), options_.more_ports.end());
  search_ = std::make_unique<port_search>(context_.get_executor(), options_.endpoint.host, ports,
                                          options_.run_id);
  search_->start(options_.settings.timing.join_timeout,
                 [this](std::uint16_t port, std::string problem) {
                   progress_timer_.cancel();
                   if (exit_code_) return;  // a signal has ended us first
                   if (port == 0) {
                     daemon_place where;
                     where.problem = "run " + options_.run_id + " was not found at any port of " +
                                     options_.endpoint.host + " within join_timeout: " + problem;
                     return end_without_daemon(std::move(where), unmet_exit_code);
                   }
                   embedded_->is_at(port);
                   open_or_dial();
                 });
  say_search(said_first_after);
}

void agent::say_search(duration after) {
  progress_timer_.expires_after(after);
  progress_timer_.async_wait([this, after](boost::system::error_code error) {
    if (error || exit_code_ || machine_) return;
    std::vector<std::uint16_t> ports = {options_.endpoint.port};
    ports.insert(ports.end(), options_.more_ports.begin(), options_.more_ports.end());
    say(note_level::info, "waiting for the rendezvous daemon of run " + options_.run_id + " on " +
                              options_.endpoint.host + ", at port " + text_of_ports(ports));
    say_search(std::min<duration>(2 * after, said_again_after_max));
  });
}

}  // namespace ddprun::launcher
