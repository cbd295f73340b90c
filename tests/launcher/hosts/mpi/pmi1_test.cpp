// PMI-1 against launchers of the test: one that behaves like hydra, and some that lie, do not
// answer, or disconnect.
#include "launcher/hosts/mpi/pmi1.hpp"

#include "launcher/hosts/mpi/mpi_meeting.hpp"
#include "tests/support/catch.hpp"

#include <array>
#include <functional>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher::hosts::mpi {
namespace {

using namespace std::chrono_literals;

deadline generous() {
  return std::chrono::steady_clock::now() + 120s;
}

std::array<unique_fd, 2> connection_pair() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

// The next line from the peer, without its newline; empty: the connection was closed.
std::string line_from(int fd) {
  std::string line;
  for (char each = 0; ::read(fd, &each, 1) == 1 && each != '\n';)
    line += each;
  return line;
}

void say(int fd, const std::string& text) {
  (void)!::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}

// Answers one process as MPICH's hydra does. `answer` may replace the answer to a line; an empty
// one keeps hydra's own.
struct fake_hydra {
  explicit fake_hydra(std::function<std::string(const std::string& line)> answer = {})
      : fake_hydra(connection_pair(), std::move(answer)) {}
  fake_hydra(std::array<unique_fd, 2> ends, std::function<std::string(const std::string&)> answer)
      : process(std::move(ends[0])), own(std::move(ends[1])), thread([this, answer] {
          for (std::string line = line_from(own.get()); !line.empty();
               line = line_from(own.get())) {
            heard.push_back(line);
            const std::string other = answer ? answer(line) : std::string();
            if (other == "close") break;
            say(own.get(), other.empty() ? usual_answer(line) : other);
          }
          ::shutdown(own.get(), SHUT_RDWR);
        }) {}
  ~fake_hydra() { end(); }

  // All that it has received, once the process has disconnected.
  std::vector<std::string> end() {
    process.reset();
    if (thread.joinable()) thread.join();
    return heard;
  }

  static std::string usual_answer(const std::string& line) {
    const std::string command = line.substr(0, line.find(' '));
    if (command == "cmd=init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    if (command == "cmd=get_maxes")
      return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
    if (command == "cmd=get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1_0_vm\n";
    if (command == "cmd=put") return "cmd=put_result rc=0 msg=success\n";
    if (command == "cmd=barrier_in") return "cmd=barrier_out\n";
    if (command == "cmd=get") return "cmd=get_result rc=0 msg=success value=found\n";
    if (command == "cmd=finalize") return "cmd=finalize_ack\n";
    return "cmd=unknown\n";
  }

  unique_fd process;
  unique_fd own;
  std::vector<std::string> heard;
  std::thread thread;
};

// The error of `begin` for a launcher that answers `line` so.
std::string refusal(const std::string& line, const std::string& answer) {
  fake_hydra hydra([&](const std::string& heard) { return heard.starts_with(line) ? answer : ""; });
  auto board = pmi1_exchange::begin(std::move(hydra.process), generous());
  if (!board) return board.error().text;
  const auto put = (*board)->put("k", "v");
  const auto fence = (*board)->fence();
  const auto got = (*board)->get(0, "k");
  const auto left = (*board)->finish();
  board->reset();
  if (put) return put->text;
  if (fence) return fence->text;
  if (!got) return got.error().text;
  return left ? left->text : "";
}

}  // namespace

TEST_CASE("mpi: PMI-1 is spoken line by line, and left in order") {
  fake_hydra hydra;
  {
    auto board = pmi1_exchange::begin(std::move(hydra.process), generous());
    REQUIRE(board.has_value());
    CHECK_FALSE((*board)->put("card", "10.0.0.1,fd00::1"));
    CHECK_FALSE((*board)->fence());
    const auto found = (*board)->get(1, "card-1");
    REQUIRE(found.has_value());
    CHECK(*found == "found");
    CHECK_FALSE((*board)->finish());
    CHECK((*board)->fence()->text == "its PMI has been left already");
  }
  CHECK(hydra.end() ==
        std::vector<std::string>{
            "cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_maxes", "cmd=get_my_kvsname",
            "cmd=put kvsname=kvs_1_0_vm key=card value=10.0.0.1,fd00::1", "cmd=barrier_in",
            "cmd=get kvsname=kvs_1_0_vm key=card-1", "cmd=finalize"});
}

TEST_CASE("mpi: at a port PMI-1 says which rank of how many this is") {
  const auto with_ids = [](const std::string& line) -> std::string {
    if (!line.starts_with("cmd=initack")) return "";
    return "cmd=initack\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n";
  };
  fake_hydra hydra(with_ids);
  {
    const auto board = pmi1_exchange::begin(std::move(hydra.process), generous(), "7");
    REQUIRE(board.has_value());
    CHECK((*board)->rank() == 2U);
    CHECK((*board)->size() == 4U);
  }
  CHECK(hydra.end().front() == "cmd=initack pmiid=7");
  fake_hydra liar([](const std::string& line) -> std::string {
    if (!line.starts_with("cmd=initack")) return "";
    return "cmd=initack\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0\n";
  });
  const auto refused = pmi1_exchange::begin(std::move(liar.process), generous(), "7");
  REQUIRE(refused.has_error());
  CHECK(refused.error().text == "its PMI does not say which rank this process has");
}

TEST_CASE("mpi: a launcher that lies is refused with its own words") {
  CHECK(refusal("cmd=init", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n") ==
        "its PMI is not of version 1");
  CHECK(refusal("cmd=init", "cmd=response_to_init pmi_version=1 rc=-1\n") ==
        "its PMI answered \"cmd=response_to_init pmi_version=1 rc=-1\" instead of "
        "response_to_init");
  CHECK(refusal("cmd=get_maxes", "cmd=maxes vallen_max=16\n") ==
        "its PMI takes no values of 1000 bytes");
  CHECK(refusal("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=\n") ==
        "its PMI has no name for its key-value space");
  CHECK(refusal("cmd=put", "cmd=put_result rc=-1 msg=no room\n") ==
        "its PMI answered \"cmd=put_result rc=-1 msg=no room\" instead of put_result");
  CHECK(refusal("cmd=barrier_in", "cmd=put_result rc=0\n") ==
        "its PMI answered \"cmd=put_result rc=0\" instead of barrier_out");
  CHECK(refusal("cmd=get k", "cmd=get_result rc=0\n") == "its PMI gave an answer without a value");
  CHECK(refusal("cmd=init", "\x01\xff HTTP/1.1 400\n") ==
        "its PMI gives an invalid answer: \"?? HTTP/1.1 400\"");
  CHECK(refusal("cmd=init", "\n") == "its PMI gives an invalid answer: \"\"");
  CHECK(refusal("cmd=get_maxes", std::string(100 << 10, 'x'))
            .starts_with("its PMI sends a line without an end: \"xxx"));
}

TEST_CASE("mpi: a launcher that goes away is said to, at each of its lines") {
  for (const std::string line : {"cmd=init", "cmd=get_maxes", "cmd=get_my_kvsname", "cmd=put",
                                 "cmd=barrier_in", "cmd=get kvs", "cmd=finalize"}) {
    const std::string said = refusal(line, "close");
    // If the launcher has disconnected before, the next message cannot be sent.
    const bool is_told = said == "its PMI has closed the connection" ||
                         said.starts_with("its PMI cannot be written to: ");
    CHECK(is_told);
  }
}

TEST_CASE("mpi: a launcher that says nothing is given up at the deadline") {
  auto ends = connection_pair();
  const auto board =
      pmi1_exchange::begin(std::move(ends[0]), std::chrono::steady_clock::now() + 20ms);
  REQUIRE(board.has_error());
  CHECK(board.error().text ==
        "some of its processes did not reach its PMI, or that did not answer, in time");
}

TEST_CASE("mpi: a descriptor that is not there is named") {
  for (const std::string text : {"", "x", "2", "-1", "1000000"}) {
    const auto board = pmi1_exchange::open({{"PMI_FD", text}}, generous());
    REQUIRE(board.has_error());
    CHECK(board.error().text.starts_with("PMI_FD=" + text + " is not a descriptor"));
  }
  const auto no_port = pmi1_exchange::open({{"PMI_PORT", "node"}}, generous());
  REQUIRE(no_port.has_error());
  CHECK(no_port.error().text == "PMI_PORT=node is not HOST:PORT");
}

TEST_CASE("mpi: a port is dialled, this host's own name by loopback") {
  const unique_fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof here;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&here), length) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here), &length) == 0);
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  std::string heard;
  std::thread server([&] {
    const unique_fd client(::accept(listener.get(), nullptr, nullptr));
    heard = line_from(client.get());
  });
  const std::string place = std::string(name) + ":" + std::to_string(ntohs(here.sin_port));
  const auto board = pmi1_exchange::open({{"PMI_PORT", place}, {"PMI_ID", "3"}}, generous());
  CHECK(board.has_error());
  server.join();
  CHECK(heard == "cmd=initack pmiid=3");
}

}  // namespace ddprun::launcher::hosts::mpi
