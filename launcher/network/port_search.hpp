// A port search finds the daemon that holds a run, on a host where it may be at one of several
// ports: the first may belong to another program, or to the daemon of another job.
//
// It asks at each port in turn for the run, over HTTP (GET /api/v1/runs/ID,
// rendezvous/PROTOCOL.md), because joining would open the run at a stranger's daemon. Only the
// answer 200 counts. After the last port it pauses, for 200 ms to 2 s, and starts again: the daemon
// may come later.
//
// Thread rule: one thread, that of the executor. The handler is called from the loop, and not after
// `stop` or destruction.
#pragma once

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/dialer.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher {

class port_search {
 public:
  // Port 0: not found within the limit; `problem` says what was seen at each port.
  using handler = std::function<void(std::uint16_t port, std::string problem)>;

  port_search(net::executor where, std::string host, std::vector<std::uint16_t> ports,
              const std::string& run_id);
  ~port_search();
  port_search(const port_search&) = delete;
  port_search& operator=(const port_search&) = delete;

  void start(duration limit, handler found);
  void stop();

 private:
  struct question;  // one connection, kept alive by its operations

  void ask();
  void answered(const std::string& problem);
  void next();
  void end(std::uint16_t port, std::string problem);

  net::executor executor_;
  net::dialer dialer_;
  boost::asio::steady_timer pause_timer_;
  std::string host_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::string> problems_;  // of each port, the newest; empty: not asked yet
  std::string path_;                   // of the HTTP request
  handler found_;                      // empty: no search
  time_point give_up_{};
  std::size_t at_ = 0;
  duration pause_{};
  std::shared_ptr<question> question_;
  lifetime lifetime_;
};

}  // namespace ddprun::launcher
