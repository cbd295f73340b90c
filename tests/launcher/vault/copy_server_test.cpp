// The server for copies and its callers, over loopback.
#include "launcher/vault/copy_server.hpp"

#include "launcher/vault/peer_calls.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace ddprun::launcher::vault;
using ddprun::tests::content_of;
using ddprun::tests::patience;
using ddprun::tests::temporary_folder;
namespace fs = std::filesystem;

namespace {

bool all_of_it(std::uint64_t) {
  return true;
}

std::function<bool(std::uint64_t)> up_to(std::uint64_t most) {
  return [most](std::uint64_t bytes) { return bytes <= most; };
}

struct serving {
  serving() {
    for (const std::string& one : {disk, memory, other})
      fs::create_directories(one);
    shared->wanted.disk = disk;
    shared->mark = "test";
    shared->tell_to([this](ddprun::note_level, const std::string& text) {
      const std::lock_guard lock(telling);
      told_so_far += text + "\n";
    });
    std::string problem;
    server = copy_server::start(shared, 0, problem);
    REQUIRE(server);
    there = {0, "127.0.0.1", server->port(), server->token()};
  }
  ~serving() {
    shared->tell_to({});
    server.reset();
    // Its threads end by themselves, and may still be removing abandoned copies.
    std::error_code changed;
    do {
      fs::remove_all(all.path, changed);
    } while (changed);
  }
  std::string told() {
    const std::lock_guard lock(telling);
    return told_so_far;
  }
  std::set<std::uint32_t> savers() const {
    const std::lock_guard lock(shared->mutex);
    return shared->savers;
  }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(memory + "/" + path).parent_path());
    std::ofstream(memory + "/" + path) << text;
  }
  // The newest entry in memory.
  sent_entry newest() const {
    auto folder = *open_folder(memory);
    const auto found = complete_entries(list_files(folder.get()));
    REQUIRE_FALSE(found.empty());
    return from_memory(std::move(folder), found.back());
  }
  std::vector<std::string> copies() const { return kept_folders(disk + "/" + copy_folder(1)); }
  // Its answer to this text, which is sent unchanged.
  std::string answer_to(const std::string& text) const {
    std::string problem;
    auto stream =
        ddprun::worker::blocking_stream::dial(there.address, there.port, {}, patience, problem);
    REQUIRE(stream.has_value());
    (void)stream->send(text, patience);
    std::string received;
    while (!stream->receive(received, 4096, patience)) {
      if (received.ends_with('\n')) break;
    }
    return received;
  }
  std::string greeted(const std::string& text) const {
    return answer_to(std::string(greeting) + there.token + "\n" + text);
  }

  temporary_folder all;
  std::string disk = all.path + "/disk", memory = all.path + "/memory", other = all.path + "/other";
  std::mutex telling;
  std::string told_so_far;
  std::shared_ptr<desk> shared = std::make_shared<desk>();
  std::unique_ptr<copy_server> server;
  peer there;
};

}  // namespace

TEST_CASE("an entry is kept on another node, and comes back as it was", "[vault]") {
  serving test;
  test.write("step-1/model", std::string(3 << 20, 'm'));
  test.write("step-1/more/a b", "");
  test.write("step-1/.complete", "");
  sent_entry sent = test.newest();
  sent.from = {"7319.4", 2};
  REQUIRE(put_entry(test.there, 1, sent, all_of_it).problem.empty());
  CHECK(test.copies() == std::vector<std::string>{folder_of(sent.what)});
  CHECK(test.savers() == std::set<std::uint32_t>{1});
  std::uint64_t passed = 0;
  REQUIRE(put_entry(test.there, 1, test.newest(), [&](std::uint64_t bytes) {
            passed += bytes;
            return true;
          }).problem.empty());
  CHECK(passed == 0);  // it has that one

  const auto folder = *open_folder(test.other);
  origin from;
  REQUIRE(get_entry(test.there, 1, sent.what, folder.get(), up_to(4 << 20), from, all_of_it)
              .problem.empty());
  CHECK(content_of(test.other + "/step-1/model") == std::string(3 << 20, 'm'));
  const auto back = complete_entries(list_files(folder.get()));
  REQUIRE(back.size() == 1);
  CHECK(from == sent.from);
  CHECK(back[0].what == sent.what);
  CHECK(back[0].files.size() == 3);
}

TEST_CASE("an entry whose connection breaks off is asked for again", "[vault]") {
  serving test;
  test.write("step-1/model", std::string(3 << 20, 'm'));
  test.write("step-1/.complete", "");
  const sent_entry sent = test.newest();
  REQUIRE(put_entry(test.there, 1, sent, all_of_it).is_done());
  // A peer before the server answers with the beginning of an entry, and disconnects.
  const int broken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  REQUIRE(::bind(broken, reinterpret_cast<sockaddr*>(&any), size) == 0);
  REQUIRE(::listen(broken, 4) == 0);
  REQUIRE(::getsockname(broken, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  std::atomic<int> calls = 0;
  std::thread breaking([&] {
    while (true) {
      const int one = ::accept(broken, nullptr, nullptr);
      if (one < 0) return;
      ++calls;
      const std::string begun = head_of(sent) + "\nfile 3145728 5 step-1/model\nmmm";
      (void)::send(one, begun.data(), begun.size(), MSG_NOSIGNAL);
      ::shutdown(one, SHUT_RDWR);
      ::close(one);
    }
  });
  const peer cut{0, "127.0.0.1", ntohs(any.sin_port), test.there.token};
  const auto folder = *open_folder(test.other);
  origin from;
  const outcome done = get_entry(cut, 1, sent.what, folder.get(), up_to(4 << 20), from, all_of_it);
  ::shutdown(broken, SHUT_RDWR);
  breaking.join();
  ::close(broken);
  CHECK(done.is_lost);
  CHECK(calls == get_tries);
  CHECK(list_files(folder.get()).empty());
}

TEST_CASE("of each node the newest two copies stay", "[vault]") {
  serving test;
  for (const std::string name : {"step-1", "step-2", "step-3"}) {
    test.write(name + "/model", name);
    test.write(name + "/.complete", "");
    REQUIRE(put_entry(test.there, 1, test.newest(), all_of_it).problem.empty());
  }
  REQUIRE(test.copies().size() == 2);
  CHECK(test.copies()[0].ends_with("step-3"));
  CHECK(test.copies()[1].ends_with("step-2"));
}

TEST_CASE("a copy that is damaged, given up or too large is none", "[vault]") {
  serving test;
  test.write("step-1/model", std::string(1 << 20, 'm'));
  test.write("step-1/.complete", "");
  const sent_entry sent = test.newest();
  CHECK(put_entry(test.there, 1, sent, [](std::uint64_t) { return false; }).is_abandoned);
  CHECK(test.copies().empty());
  REQUIRE(put_entry(test.there, 1, sent, all_of_it).is_done());
  const auto folder = *open_folder(test.other);
  origin from;
  CHECK(get_entry(test.there, 1, sent.what, folder.get(), up_to(1000), from, all_of_it).problem ==
        "the vault has no room for it (--vault-size)");
  std::ofstream(test.disk + "/copy-of-node-1/" + test.copies()[0] + "/files/step-1/model",
                std::ios::in | std::ios::out)
      << "X";
  CHECK_FALSE(
      get_entry(test.there, 1, sent.what, folder.get(), up_to(4 << 20), from, all_of_it).is_done());
  CHECK(list_files(folder.get()).empty());
  CHECK(get_entry(test.there, 1, {5, "step-9"}, folder.get(), up_to(1), from, all_of_it).problem ==
        "it was removed meanwhile");
}

TEST_CASE("where one of two that are here is damaged the other is sent", "[vault]") {
  serving test;
  test.write("step-1/model", std::string(1 << 20, 'm'));
  test.write("step-1/.complete", "");
  const sent_entry sent = test.newest();
  REQUIRE(put_entry(test.there, 1, sent, all_of_it).is_done());
  // This host was node 1 itself at one time.
  const std::string own = test.disk + "/node-1";
  fs::create_directories(own);
  const auto memory = *open_folder(test.memory);
  const auto found = complete_entries(list_files(memory.get()));
  REQUIRE(keep_on_disk(memory.get(), found.back(), own, "test", all_of_it).is_done());
  const std::string model = own + "/" + folder_of(sent.what) + "/files/step-1/model";
  const auto written = fs::last_write_time(model);
  std::ofstream(model, std::ios::in | std::ios::out) << "X";
  fs::last_write_time(model, written);

  const auto folder = *open_folder(test.other);
  origin from;
  const outcome done =
      get_entry(test.there, 1, sent.what, folder.get(), up_to(4 << 20), from, all_of_it);
  CHECK(done.problem == "");
  CHECK(content_of(test.other + "/step-1/model") == std::string(1 << 20, 'm'));
}

TEST_CASE("what is set aside is neither kept nor given, whatever came first", "[vault]") {
  serving test;
  test.write("step-1/model", "1");
  test.write("step-1/.complete", "");
  const sent_entry sent = test.newest();
  const auto put_aside = [&] {
    const std::lock_guard lock(test.shared->mutex);
    test.shared->set_aside.insert({1, sent.what});
  };
  // Node 2's entry of that name is another one.
  REQUIRE(put_entry(test.there, 2, test.newest(), all_of_it).is_done());
  SECTION("it is there already") {
    REQUIRE(put_entry(test.there, 1, sent, all_of_it).is_done());
    put_aside();
    const auto folder = *open_folder(test.other);
    origin from;
    CHECK_FALSE(
        get_entry(test.there, 1, sent.what, folder.get(), up_to(1000), from, all_of_it).is_done());
    CHECK(list_files(folder.get()).empty());
  }
  SECTION("it comes later") {
    put_aside();
    REQUIRE(put_entry(test.there, 1, sent, all_of_it).is_done());
    CHECK(test.copies().empty());
  }
  SECTION("it is on its way") {
    (void)put_entry(test.there, 1, sent, [&](std::uint64_t) {
      put_aside();
      return true;
    });
    CHECK(test.copies().empty());
  }
  CHECK(kept_folders(test.disk + "/" + copy_folder(2)).size() == 1);
}

TEST_CASE("a stranger is turned away, and odd words are refused", "[vault]") {
  serving test;
  for (const std::string text :
       {"ddprun-vault 1 0123\nput 0\nentry 5 5 0 - a\n", "GET / HTTP/1.1\r\n\r\n", "\n"}) {
    INFO(text);
    CHECK(test.answer_to(text).empty());
  }
  CHECK(test.answer_to(std::string(100'000, 'x')).empty());
  CHECK(test.told().find("does not belong to this job") != std::string::npos);
  CHECK(test.greeted("steal 0\n") == "no unknown request\n");
  CHECK(test.greeted("put x\n") == "no unknown request\n");
  CHECK(test.greeted("put 1\nentry 5 5 0 - ../a\n") == "no malformed entry\n");
  CHECK(test.greeted("get 1 5 /etc/passwd\n") == "no malformed entry\n");
  const std::string put = "put 1\nentry 5 5 0 - a\n";
  for (const std::string odd :
       {"file 5 1 b/x\n", "file 5 1 a/../b\n", "file 5 1 /a\n", "file 6 1 a\n", "file -1 1 a\n",
        "files\n", "end\n", "file 5 1 a\nhellosum 0000000000000000\n"}) {
    INFO(odd);
    const std::string answer = test.greeted(put + odd);
    CHECK(answer.starts_with("send\n"));
    CHECK(test.copies().empty());
  }
  CHECK_FALSE(fs::exists(test.disk + "/copy-of-node-1/b"));
}
