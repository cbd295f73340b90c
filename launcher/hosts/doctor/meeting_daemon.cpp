#include "launcher/hosts/doctor/meeting_daemon.hpp"

#include "rendezvous/net/resolve.hpp"

#include <boost/asio/post.hpp>

#include <future>

namespace ddprun::launcher::doctor {

error_code meeting_daemon::open(const cli::endpoint_address& endpoint, std::string& problem) {
  server::server_options options;
  const auto numeric = net::numeric_address(endpoint.host);
  if (numeric && numeric->is_loopback()) options.bind_address = endpoint.host;
  options.port = endpoint.port;
  options.daemon.recovery_window = duration::zero();
  if (const error_code error = thread_.start()) return error;
  std::promise<error_code> answer;
  boost::asio::post(thread_.context(), [&] {
    auto made = std::make_unique<server::server>(thread_.executor(), std::move(options));
    const result<std::uint16_t> port = made->start(problem);
    if (port) server_ = std::move(made);
    answer.set_value(port ? error_code() : port.error());
  });
  return answer.get_future().get();
}

}  // namespace ddprun::launcher::doctor
