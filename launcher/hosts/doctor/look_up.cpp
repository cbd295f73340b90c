#include "launcher/hosts/doctor/look_up.hpp"

#include <boost/asio/io_context.hpp>

namespace ddprun::launcher::doctor {

look_up_answer look_up(const std::string& host, std::uint16_t port, duration limit) {
  boost::asio::io_context loop;
  look_up_answer answer;
  net::resolver resolver(loop.get_executor());
  resolver.start(host, port, [&](error_code error, net::endpoints found) {
    answer = {false, error, std::move(found)};
    loop.stop();
  });
  const auto keeps_running = boost::asio::make_work_guard(loop);
  loop.run_for(limit);
  return answer;
}

}  // namespace ddprun::launcher::doctor
