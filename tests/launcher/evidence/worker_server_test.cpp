#include "launcher/evidence/worker_server.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

using namespace std::chrono_literals;

// Answers one question on a socket in the folder.
class fake_server {
 public:
  fake_server(std::string path, std::function<void(int)> answer)
      : path_(std::move(path)), listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::strncpy(where.sun_path, path_.c_str(), sizeof where.sun_path - 1);
    REQUIRE(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
    REQUIRE(::listen(listening_.get(), 1) == 0);
    if (!answer) return;
    thread_ = std::thread([this, answer = std::move(answer)] {
      const unique_fd peer(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char byte = 0;
      while (!asked_.ends_with("\r\n\r\n") && ::read(peer.get(), &byte, 1) == 1)
        asked_ += byte;
      answer(peer.get());
    });
  }
  ~fake_server() {
    if (thread_.joinable()) thread_.join();
  }

  std::string asked() {
    thread_.join();
    return asked_;
  }

 private:
  std::string path_;
  unique_fd listening_;
  std::string asked_;
  std::thread thread_;
};

// False: the other side has closed.
bool say(int peer, const std::string& text) {
  return ::send(peer, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

std::function<void(int)> saying(const std::string& text) {
  return [text](int peer) { say(peer, text); };
}

const std::string good = "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"pg_status\":{}}";

}  // namespace

TEST_CASE("all workers' servers are asked at once, and those answer that can") {
  const tests::temporary_folder folder;
  std::atomic<int> answered = 0;
  const auto answering = [&answered](int peer) {
    say(peer, good);
    ++answered;
  };
  fake_server one(folder.path + "/1", answering);
  // It goes when the others have answered, and would be waited for until then.
  fake_server silent(folder.path + "/2", [&answered](int) {
    while (answered != 2)
      std::this_thread::sleep_for(1ms);
  });
  fake_server other(folder.path + "/3", answering);
  const auto answers = ask_worker_servers({{1, folder.path + "/1"},
                                           {2, folder.path + "/2"},
                                           {3, folder.path + "/3"},
                                           {4, folder.path + "/4"},
                                           {5, folder.path + "/" + std::string(200, 'x')}},
                                          10min);
  CHECK(answers.size() == 2);
  CHECK((answers.contains(1) && answers.contains(3)));
  CHECK(one.asked().starts_with("POST /handler/fr_trace_json HTTP/1.1\r\n"));
}

TEST_CASE("a server that never answers is waited for no longer than the limit") {
  const tests::temporary_folder folder;
  fake_server silent(folder.path + "/1", {});
  CHECK(ask_worker_servers({{1, folder.path + "/1"}}, 50ms).empty());
}

TEST_CASE("an answer that is none, too long or without end counts for nothing") {
  for (const std::string& text :
       {std::string(), std::string("hello\r\n\r\n"), std::string("HTTP/1.1 404 Not Found\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
        std::string("HTTP/1.1 500 Error\r\nContent-Length: 16\r\n\r\n{\"pg_status\":{}}"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"pg_status\":{}}"),
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(record_bytes_max + 1) + "\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nX: " + std::string(10000, 'x') + "\r\n\r\n"}) {
    const tests::temporary_folder folder;
    fake_server odd(folder.path + "/1", saying(text));
    INFO(text.substr(0, 100));
    CHECK(ask_worker_servers({{1, folder.path + "/1"}}, 10min).empty());
  }
  const tests::temporary_folder folder;
  fake_server endless(folder.path + "/1", [](int peer) {
    say(peer, "HTTP/1.1 200 OK\r\n\r\n");
    while (say(peer, std::string(65536, 'x'))) {
    }
  });
  CHECK(ask_worker_servers({{1, folder.path + "/1"}}, 10min).empty());
}

}  // namespace ddprun::launcher::evidence
