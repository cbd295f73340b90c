#include "launcher/evidence/worker_server.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

// Answers as PyTorch does, by the first line of the question, until nobody asks any more.
class fake_torch {
 public:
  using answers = std::map<std::string, std::string>;

  fake_torch(const std::string& path, answers known)
      : known_(std::move(known)), listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::strncpy(where.sun_path, path.c_str(), sizeof where.sun_path - 1);
    REQUIRE(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
    REQUIRE(::listen(listening_.get(), 8) == 0);
    thread_ = std::thread([this] {
      for (;;) {
        const unique_fd peer(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!peer) return;
        answer(peer.get());
      }
    });
  }
  ~fake_torch() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void answer(int peer) const {
    std::string question;
    char byte = 0;
    while (!question.ends_with("\r\n\r\n") && ::read(peer, &byte, 1) == 1)
      question += byte;
    const auto found = known_.find(question.substr(0, question.find(" HTTP/1.1")));
    if (found == known_.end()) {
      say(peer, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    say(peer, "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(found->second.size()) +
                  "\r\n\r\n" + found->second);
  }

  answers known_;
  unique_fd listening_;
  std::thread thread_;
};

std::string record_with(const std::string& call, int time_ns) {
  return R"({"pg_status":{},"entries":[{"process_group":["0","default_pg"],"pg_id":0,)"
         R"("collective_seq_id":4,"retired":false,"state":"scheduled","profiling_name":")" +
         call + R"(","time_created_ns":)" + std::to_string(time_ns) + "}]}";
}

const std::string empty_record = R"({"pg_status":{}})";
const std::string names_until_2_14 = R"(["dump_nccl_trace_json","fr_trace_json","ping"])";
const std::string names_of_2_15 = R"(["dump_nccl_trace_json","fr_dump_file","fr_trace_json"])";

// "GROUP CALL" each, oldest first.
std::vector<std::string> calls_told(const fake_torch::answers& known, bool asks_nccl = true) {
  const tests::temporary_folder folder;
  const fake_torch server(folder.path + "/1", known);
  const auto answers = ask_worker_servers({{1, folder.path + "/1"}}, asks_nccl, 10min);
  REQUIRE(answers.contains(1));
  std::vector<std::string> told;
  for (const collective& one : answers.at(1).recent) {
    told.push_back(one.group + " " + one.name);
    CHECK(number_of(answers.at(1), one) == "#4");
  }
  return told;
}

}  // namespace

TEST_CASE("what NCCL's recorder has is told beside that of Gloo") {
  using told = std::vector<std::string>;
  const std::string of_gloo = record_with("gloo:barrier", 2);
  const std::string of_nccl = record_with("nccl:all_reduce", 1);
  SECTION("of PyTorch 2.15, whose backends have a recorder each") {
    const fake_torch::answers known = {{"POST /handler/fr_trace_json", of_gloo},
                                       {"POST /handler/fr_trace_json?backend=nccl2", of_nccl},
                                       {"POST /handler/dump_nccl_trace_json", empty_record},
                                       {"GET /handler/", names_of_2_15}};
    CHECK(calls_told(known) == told{"nccl2 0 all_reduce", "0 barrier"});
    CHECK(calls_told(known, false) == told{"0 barrier"});  // nobody uses it there
  }
  SECTION("of older ones, which take no notice of the backend's name") {
    const fake_torch::answers known = {{"POST /handler/fr_trace_json", of_gloo},
                                       {"POST /handler/fr_trace_json?backend=nccl2", of_gloo},
                                       {"POST /handler/dump_nccl_trace_json", of_nccl},
                                       {"GET /handler/", names_until_2_14}};
    CHECK(calls_told(known) == told{"nccl 0 all_reduce", "0 barrier"});
  }
  SECTION("of one that was built without NCCL") {
    CHECK(calls_told({{"POST /handler/fr_trace_json", of_gloo},
                      {"GET /handler/", R"(["fr_dump_file","fr_trace_json"])"}}) ==
          told{"0 barrier"});
  }
  SECTION("where Gloo's has no answer") {
    CHECK(calls_told({{"POST /handler/dump_nccl_trace_json", of_nccl},
                      {"GET /handler/", names_of_2_15}}) == told{"nccl 0 all_reduce"});
  }
}

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
                                          false, 10min);
  CHECK(answers.size() == 2);
  CHECK((answers.contains(1) && answers.contains(3)));
  CHECK(one.asked().starts_with("POST /handler/fr_trace_json HTTP/1.1\r\n"));
}

TEST_CASE("a server that never answers is waited for no longer than the limit") {
  const tests::temporary_folder folder;
  fake_server silent(folder.path + "/1", {});
  CHECK(ask_worker_servers({{1, folder.path + "/1"}}, false, 50ms).empty());
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
    CHECK(ask_worker_servers({{1, folder.path + "/1"}}, false, 10min).empty());
  }
  const tests::temporary_folder folder;
  fake_server endless(folder.path + "/1", [](int peer) {
    say(peer, "HTTP/1.1 200 OK\r\n\r\n");
    while (say(peer, std::string(65536, 'x'))) {
    }
  });
  CHECK(ask_worker_servers({{1, folder.path + "/1"}}, false, 10min).empty());
}

}  // namespace ddprun::launcher::evidence
