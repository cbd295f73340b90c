#include "worker/round_link.hpp"

#include "rendezvous/net/packet.hpp"
#include "tests/support/catch.hpp"
#include "worker/round_parts.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <future>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using namespace std::chrono_literals;
using worker::round_link;

// Plays the agent's side, on a thread.
class fake_agent {
 public:
  fake_agent() : name_("ddprun-test-round-link-" + std::to_string(::getpid())) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    listener_ = unique_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
  }

  worker::variable_lookup variables() const {
    return [values = values, name = name_](const char* key) -> std::optional<std::string> {
      if (key == std::string("DDPRUN_SURVIVORS")) return name;
      const auto found = values.find(key);
      return found == values.end() ? std::nullopt : std::optional(found->second);
    };
  }

  // Returns the worker's link after this reply to its call; with "" the agent hangs up.
  std::unique_ptr<round_link> accept(const std::string& answer = "ok") {
    auto opened = std::async(std::launch::async, [&] { return round_link::open(variables()); });
    worker_ = unique_fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    CHECK(hear() == "stay");
    if (answer.empty()) {
      worker_.reset();
    } else {
      say(answer);
    }
    return opened.get();
  }

  void say(const std::string& word, const std::vector<int>& files = {}) {
    CHECK_FALSE(net::send_packet(worker_.get(), word, files).failed());
  }
  std::string hear() {
    pollfd ready{worker_.get(), POLLIN, 0};
    CHECK(::poll(&ready, 1, -1) == 1);
    const auto told = net::receive_packet(worker_.get());
    return told ? told->text : "an error";
  }
  void hang_up() { worker_.reset(); }
  void give_round(const std::string& changes) {
    const unique_fd file(::memfd_create("round", MFD_CLOEXEC));
    CHECK(::write(file.get(), changes.data(), changes.size()) ==
          static_cast<ssize_t>(changes.size()));
    say("round", {file.get()});
  }

  std::map<std::string, std::string> values{{"DDPRUN_SURVIVORS_PATIENCE", "2.5"}};

 private:
  std::string name_;
  unique_fd listener_, worker_;
};

// Waits until it is ended from outside.
struct waiting_part : worker::round_part {
  void end_waits() override {
    if (!is_ended.exchange(true)) ended.set_value();
  }
  void left() override { has_left = true; }
  std::atomic<bool> is_ended{false};
  std::promise<void> ended;
  bool has_left = false;
};

}  // namespace

TEST_CASE("round link: the launcher's word ends what waits, and the next round is begun",
          "[worker]") {
  fake_agent agent;
  const auto link = agent.accept();
  REQUIRE(link);
  CHECK(link->patience() == 2500ms);
  CHECK_FALSE(link->may_leave(0ms));  // the round is still running
  CHECK_FALSE(worker::is_round_over());

  const auto part = std::make_shared<waiting_part>();
  worker::add_round_part(part);
  agent.say("leave");
  part->ended.get_future().wait();
  CHECK(link->may_leave(0ms));
  CHECK(worker::is_round_over());

  auto next = std::async(std::launch::async, [&] { return link->next_round(); });
  CHECK(agent.hear() == "left");
  agent.give_round(std::string("RANK=2\0WORLD_SIZE=3\0OLD\0EMPTY=\0", 31));
  const auto changes = next.get();
  REQUIRE(changes);
  CHECK(*changes == worker::environment_changes{"RANK=2", "WORLD_SIZE=3", "OLD", "EMPTY="});
  CHECK(part->has_left);
  link->begin(agent.variables());
  CHECK(agent.hear() == "begun");

  // A second round works the same way.
  CHECK_FALSE(link->may_leave(0ms));
  CHECK_FALSE(worker::is_round_over());
  agent.say("leave");
  CHECK(link->may_leave(1h));
}

TEST_CASE("round link: without an agent that supports it there is none", "[worker]") {
  const auto open = [](std::optional<std::string> name) {
    return round_link::open([&](const char* key) {
      return key == std::string("DDPRUN_SURVIVORS") ? name : std::nullopt;
    });
  };
  CHECK_FALSE(open(std::nullopt));
  CHECK_FALSE(open(""));
  CHECK_FALSE(open("ddprun-test-that-nobody-listens-at"));
  CHECK_FALSE(open(std::string(500, 'x')));
  fake_agent agent;
  CHECK_FALSE(agent.accept(""));
  CHECK_FALSE(agent.accept("no"));
}

TEST_CASE("round link: after an agent that hangs up or sends nonsense, no worker lives on",
          "[worker]") {
  fake_agent agent;
  const std::string how = GENERATE("hangs up", "makes no sense", "hangs up later", "gives no file");
  CAPTURE(how);
  const auto link = agent.accept();
  REQUIRE(link);
  if (how == "hangs up") {
    agent.hang_up();
    CHECK_FALSE(link->may_leave(1h));
    return;
  }
  if (how == "makes no sense") {
    agent.say("what?");
    CHECK_FALSE(link->may_leave(1h));
    return;
  }
  agent.say("leave");
  REQUIRE(link->may_leave(1h));
  auto next = std::async(std::launch::async, [&] { return link->next_round(); });
  CHECK(agent.hear() == "left");
  if (how == "hangs up later") {
    agent.hang_up();
  } else {
    agent.say("round");
  }
  CHECK_FALSE(next.get());
}

TEST_CASE("round link: an invalid patience is replaced by the default", "[worker]") {
  fake_agent agent;
  agent.values["DDPRUN_SURVIVORS_PATIENCE"] = GENERATE("", "soon", "-1", "nan", "1e99", "3 s");
  const auto link = agent.accept();
  REQUIRE(link);
  CHECK(link->patience() == 15s);
}

TEST_CASE("round link: connections to the round's store are ended, unless it is in use",
          "[worker]") {
  const unique_fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const own = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), own, size) == 0);
  REQUIRE(::listen(listener.get(), 2) == 0);
  REQUIRE(::getsockname(listener.get(), own, &size) == 0);
  const unique_fd store(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(store.get(), own, size) == 0);

  fake_agent agent;
  agent.values["MASTER_ADDR"] = "127.0.0.1";
  agent.values["MASTER_PORT"] = std::to_string(ntohs(address.sin_port));
  const auto link = agent.accept();
  REQUIRE(link);
  char byte = 0;
  {
    const worker::round_store_in_use agreeing;
    const auto part = std::make_shared<waiting_part>();
    worker::add_round_part(part);
    agent.say("leave");
    part->ended.get_future().wait();
    CHECK(::recv(store.get(), &byte, 1, MSG_DONTWAIT) < 0);  // it is still open, without data
  }
  CHECK(::recv(store.get(), &byte, 1, 0) == 0);
}

}  // namespace ddprun::tests
