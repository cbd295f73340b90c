#include "launcher/hosts/doctor/look_up.hpp"

#include "launcher/base/begun_task.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cctype>
#include <netdb.h>

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

name_of_address look_up_name_of(const std::string& address, duration limit) {
  const auto numeric = net::numeric_address(address);
  if (!numeric) return {};
  const auto name = within(limit, [endpoint = net::tcp::endpoint(*numeric, 0)] {
    char host[NI_MAXHOST] = "";
    const int failed = getnameinfo(endpoint.data(), static_cast<socklen_t>(endpoint.size()), host,
                                   sizeof host, nullptr, 0, NI_NAMEREQD);
    return failed == 0 ? std::string(host) : std::string();
  });
  return {!name.has_value(), name.value_or("")};
}

bool is_one_host_name(std::string_view one, std::string_view two) {
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  if (one.find('.') == std::string_view::npos || two.find('.') == std::string_view::npos) {
    one = one.substr(0, one.find('.'));
    two = two.substr(0, two.find('.'));
  }
  return std::equal(one.begin(), one.end(), two.begin(), two.end(), same);
}

}  // namespace ddprun::launcher::doctor
