#include "rendezvous/server/service_manager.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <array>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::server;
using namespace std::chrono_literals;
using tests::run_until;

namespace {

constexpr pid_t self = 4711;

// The manager's end: the messages that it was sent, in order.
class fake_manager {
 public:
  explicit fake_manager(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (path[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  }

  // Empty: nothing more.
  std::string next() const {
    std::array<char, 4096> bytes{};
    const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : std::string();
  }

 private:
  unique_fd socket_;
};

}  // namespace

TEST_CASE("a service manager is told when the daemon is ready, that it lives, and that it ends") {
  boost::asio::io_context io{1};
  const tests::temporary_folder folder;
  const auto kind = GENERATE(false, true);
  const std::string address =
      kind ? folder.path + "/notify" : "@ddprun-test-" + std::to_string(::getpid());
  const fake_manager told(address);
  service_manager manager(io.get_executor(),
                          {{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "2000"}}, self);
  int agents = 0;
  CHECK(manager.ready([&] { return std::to_string(agents) + " agents"; }).empty());
  CHECK(told.next() == "READY=1\nSTATUS=0 agents");
  agents = 2;
  std::string word;
  for (int beat = 0; beat < 3; ++beat) {
    REQUIRE(run_until(io, [&] { return !(word = told.next()).empty(); }));
    CHECK(word == "WATCHDOG=1\nSTATUS=2 agents");
  }
  manager.stopping();
  std::string last;
  while (!(word = told.next()).empty())
    last = word;
  CHECK(last == "STOPPING=1");
  io.restart();
  io.run();  // nothing is waited for any more
  CHECK(told.next().empty());
}

TEST_CASE("without a watchdog the manager hears nothing between the start and the end") {
  boost::asio::io_context io{1};
  const tests::temporary_folder folder;
  const fake_manager told(folder.path + "/notify");
  service_manager manager(io.get_executor(), {{"NOTIFY_SOCKET", folder.path + "/notify"}}, self);
  CHECK(manager.ready([] { return "fine"; }).empty());
  io.run();
  CHECK(told.next() == "READY=1\nSTATUS=fine");
  CHECK(told.next().empty());
}

TEST_CASE("a manager that cannot be told is named, and no manager is no trouble") {
  boost::asio::io_context io{1};
  const auto told = [&](const environment_map& environment) {
    return service_manager(io.get_executor(), environment, self).ready([] { return "fine"; });
  };
  CHECK(told({}).empty());
  CHECK(told({{"NOTIFY_SOCKET", ""}}).empty());
  const std::string start = "cannot tell the service manager at NOTIFY_SOCKET=";
  CHECK(told({{"NOTIFY_SOCKET", "/nowhere/notify"}}) ==
        start + "/nowhere/notify: No such file or directory");
  CHECK(told({{"NOTIFY_SOCKET", "notify"}}) == start + "notify: write a path, or @ and a name");
  const std::string endless = "/" + std::string(200, 'x');
  CHECK(told({{"NOTIFY_SOCKET", endless}}) == start + endless + ": write a path, or @ and a name");
}

TEST_CASE("a watchdog's interval is for the process that it names, or for any") {
  CHECK(watchdog_interval({}, self) == 0s);
  CHECK(watchdog_interval({{"WATCHDOG_USEC", "30000000"}}, self) == 30s);
  CHECK(watchdog_interval({{"WATCHDOG_USEC", "1000"}, {"WATCHDOG_PID", "4711"}}, self) == 1ms);
  CHECK(watchdog_interval({{"WATCHDOG_USEC", "1000"}, {"WATCHDOG_PID", "1"}}, self) == 0s);
  for (const char* const wrong : {"", "soon", "-1", "10s", "0", "99999999999999999999"})
    CHECK(watchdog_interval({{"WATCHDOG_USEC", wrong}}, self) == 0s);
}

TEST_CASE("sockets are inherited by the process that they are meant for") {
  CHECK(inherited_sockets({}, self)->empty());
  CHECK(inherited_sockets({{"LISTEN_FDS", "1"}}, self)->empty());
  CHECK(inherited_sockets({{"LISTEN_FDS", "1"}, {"LISTEN_PID", "1"}}, self)->empty());
  CHECK(inherited_sockets({{"LISTEN_FDS", "0"}, {"LISTEN_PID", "4711"}}, self)->empty());
  for (const char* const wrong : {"many", "-1", "65", "1 "}) {
    const auto read = inherited_sockets({{"LISTEN_FDS", wrong}, {"LISTEN_PID", "4711"}}, self);
    REQUIRE(read.has_error());
    CHECK(read.error().text ==
          "LISTEN_FDS=" + std::string(wrong) +
              ": no number of sockets from 0 to 64; unset it, or correct the unit");
  }
}
