// A keeper whose buddy is this test.
#include "launcher/vault/keeper.hpp"

#include "launcher/vault/vault_files.hpp"
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <istream>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;
using namespace ddprun::launcher::vault;
using ddprun::tests::patience;
using ddprun::tests::served_store;
using ddprun::tests::temporary_folder;
namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace {

// Receives the first entry very slowly.
class slow_buddy {
 public:
  slow_buddy() : thread_([this] { serve(); }) {}
  ~slow_buddy() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ends_.notify_all();
    boost::system::error_code ignored;
    asio::io_context context;
    asio::ip::tcp::socket last(context);
    last.connect({asio::ip::address_v4::loopback(), port()}, ignored);
    last.close(ignored);
    thread_.join();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  bool is_sent_to() const { return is_sent_to_; }
  // True once the connection has ended, at either end.
  bool has_let_go() const { return has_let_go_; }

 private:
  void serve() {
    while (!is_over_) {
      asio::ip::tcp::socket caller = acceptor_.accept();
      boost::system::error_code error;
      asio::streambuf received;
      std::istream lines(&received);
      std::string greeting, question;
      asio::read_until(caller, received, "\n", error);
      std::getline(lines, greeting);
      if (!error && received.size() == 0) asio::read_until(caller, received, "\n", error);
      std::getline(lines, question);
      if (error) continue;
      if (question.starts_with("saves")) {
        asio::write(caller, asio::buffer(std::string("ok\n")), error);
      } else if (question.starts_with("put")) {
        asio::write(caller, asio::buffer(std::string("send\n")), error);
        is_sent_to_ = true;
        take(caller);
        has_let_go_ = true;
      }
    }
  }
  void take(asio::ip::tcp::socket& caller) {
    std::vector<char> piece(64 * 1024);
    boost::system::error_code error;
    while (!is_over_ && !error) {
      caller.read_some(asio::buffer(piece), error);
      // What makes it slow: all of the entry would take it minutes.
      std::unique_lock lock(mutex_);
      ends_.wait_for(lock, 500ms, [this] { return is_over_.load(); });
    }
  }

  std::atomic<bool> is_over_ = false, is_sent_to_ = false, has_let_go_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a slow buddy does not hold up this node's own copies", "[vault]") {
  const served_store store;
  const temporary_folder all;
  slow_buddy buddy;
  asio::io_context loop;
  keeper::wiring parts;
  parts.wanted.disk = all.path + "/disk";
  parts.wanted.memory = "/dev/shm";
  parts.wanted.size = 256 << 20;
  parts.wanted.rate = 0;
  parts.mark = "keeper-" + std::to_string(::getpid());
  parts.memory_left = [] { return std::nullopt; };
  parts.say = [](ddprun::note_level, const std::string&) {};
  keeper here(loop.get_executor(), std::move(parts));

  round_place place;
  place.nodes = 2;
  place.round = 1;
  place.is_together = true;
  place.from = {"7.1", 2};
  place.store_address = "127.0.0.1";
  place.store_port = store.port();
  place.own_address = "127.0.0.1";
  place.word_limit = place.silence_limit = patience;
  auto other = std::async(std::launch::async, [&] {
    round_place there = place;
    there.group_rank = 1;
    node_word word;
    word.address = "127.0.0.1";
    word.port = buddy.port();
    word.token = "any";
    disagreement why;
    return agree(
        there, word, [] { return true; }, [](const agreed&, const auto&) { return true; }, why);
  });
  std::string memory;
  here.prepare(place, [&](const std::string& folder) {
    memory = folder;
    loop.stop();
  });
  loop.run();
  REQUIRE(other.get());
  REQUIRE_FALSE(memory.empty());
  const auto save = [&](const std::string& name, std::size_t bytes) {
    fs::create_directories(memory + "/" + name);
    std::ofstream(memory + "/" + name + "/model") << std::string(bytes, 'm');
    std::ofstream(memory + "/" + name + "/.complete");
  };
  const auto eventually = [&](auto condition) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  };
  save("step-1", 48 << 20);
  REQUIRE(eventually([&] { return buddy.is_sent_to(); }));
  save("step-2", 5);
  CHECK(eventually([&] { return kept_folders(all.path + "/disk/node-0").size() == 2; }));
  CHECK_FALSE(buddy.has_let_go());

  loop.restart();
  here.finish(true, [&] { loop.stop(); });
  loop.run();
}
