// Nodes that agree on one entry over a store, each on a thread of its own.
#include "launcher/vault/agreement.hpp"

#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "worker/store_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace ddprun::launcher::vault;
using ddprun::tests::patience;
using ddprun::tests::served_store;

namespace {

// Stands between nodes and their store, and counts their requests.
class counting_relay {
 public:
  struct count {
    std::size_t requests = 0;
    std::size_t keys = 0;
  };

  explicit counting_relay(std::uint16_t store_port) : store_port_(store_port) {
    thread_ = std::thread([this] { serve(); });
  }
  ~counting_relay() {
    is_over_ = true;
    dial(port());
    thread_.join();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  count asked() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  using tcp = boost::asio::ip::tcp;

  tcp::socket dial(std::uint16_t port) {
    tcp::socket made(context_);
    made.connect({boost::asio::ip::address_v4::loopback(), port});
    return made;
  }
  void serve() {
    std::vector<std::thread> pumps;
    while (true) {
      auto node = std::make_shared<tcp::socket>(acceptor_.accept());
      if (is_over_) break;
      auto store = std::make_shared<tcp::socket>(dial(store_port_));
      pumps.emplace_back([this, node, store] { pump(*node, *store, true); });
      pumps.emplace_back([this, node, store] { pump(*store, *node, false); });
    }
    for (std::thread& each : pumps)
      each.join();
  }
  void pump(tcp::socket& from, tcp::socket& to, bool is_counted) {
    std::string piece(64 * 1024, ' ');
    std::string unread;
    boost::system::error_code error;
    while (true) {
      const std::size_t size = from.read_some(boost::asio::buffer(piece), error);
      if (error) break;
      if (is_counted) count_in(unread.append(piece, 0, size));
      boost::asio::write(to, boost::asio::buffer(piece, size), error);
      if (error) break;
    }
    to.shutdown(tcp::socket::shutdown_send, error);
  }
  void count_in(std::string& bytes) {
    using namespace ddprun::protocol::tcpstore;
    while (true) {
      request_parser parser;
      request parsed;
      if (parser.parse(bytes, parsed) != request_parser::outcome::complete) return;
      const std::lock_guard lock(mutex_);
      if (parsed.code != opcode::validate && parsed.code != opcode::ping) ++count_.requests;
      if (parsed.code == opcode::wait || parsed.code == opcode::multi_get)
        count_.keys += parsed.size();
      bytes.erase(0, parser.consumed());
    }
  }

  std::uint16_t store_port_;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  count count_;
  boost::asio::io_context context_;
  tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
  std::thread thread_;
};

struct result_of {
  std::optional<agreed> found;
  disagreement why;
};

struct table_of {
  round_place place(std::uint32_t node, std::uint32_t nodes = 2) const {
    round_place here;
    here.group_rank = node;
    here.nodes = nodes;
    here.round = 3;
    here.is_together = true;
    here.store_address = "127.0.0.1";
    here.store_port = store.port();
    here.word_limit = patience;
    here.silence_limit = patience;
    return here;
  }
  static node_word word(std::uint32_t node) {
    node_word said;
    said.held = {{node, {10, "step-1"}, {}}, {node, {20, "step-2"}, {}}};
    return said;
  }
  static std::future<result_of> start(round_place here, std::function<bool()> goes_on,
                                      bring_part bring) {
    return std::async(std::launch::async,
                      [here, goes_on = std::move(goes_on), bring = std::move(bring)] {
                        result_of made;
                        made.found = agree(here, word(here.group_rank), goes_on, bring, made.why);
                        return made;
                      });
  }

  served_store store;
};

bool always() {
  return true;
}
bool has_it(const agreed&, const std::function<bool()>&) {
  return true;
}
bool has_only_the_first(const agreed& so_far, const std::function<bool()>&) {
  return so_far.choice.key.name == "step-1";
}

}  // namespace

TEST_CASE("nodes take the next entry where one of them has no part of the newest", "[vault]") {
  const table_of table;
  auto first = table.start(table.place(0), always, has_it);
  auto second = table.start(table.place(1), always, has_only_the_first);
  for (auto* each : {&first, &second}) {
    const result_of made = each->get();
    INFO(made.why.problem);
    REQUIRE(made.found);
    CHECK(made.found->choice.key.name == "step-1");
  }
}

TEST_CASE("a node that gives up while it brings its part ends the wait of the others", "[vault]") {
  const table_of table;
  std::atomic<bool> is_over = false;
  auto first = table.start(table.place(0), always, has_it);
  auto second = table.start(
      table.place(1), [&] { return !is_over; },
      [&](const agreed&, const std::function<bool()>&) {
        is_over = true;
        return false;
      });
  CHECK_FALSE(second.get().found);
  const result_of made = first.get();
  CHECK_FALSE(made.found);
  CHECK(made.why.problem == "node 1 gave up");
  CHECK_FALSE(made.why.is_silence);
}

TEST_CASE("where one node waits no more for a silent one, none goes on without it", "[vault]") {
  const table_of table;
  round_place hasty = table.place(0, 3);
  hasty.word_limit = 1ms;
  auto first = table.start(hasty, always, has_it);
  auto second = table.start(table.place(1, 3), always, has_it);
  const std::string problem = first.get().why.problem;
  CHECK(problem.find("does not say what its vault holds") != std::string::npos);
  const result_of made = second.get();
  CHECK_FALSE(made.found);
  CHECK(made.why.problem == problem);
  CHECK(made.why.is_silence);
  // A node that comes late hears of it, too.
  const result_of late = table.start(table.place(2, 3), always, has_it).get();
  CHECK_FALSE(late.found);
  CHECK(late.why.problem == problem);
}

TEST_CASE("no node waits for a node that says it has no vault", "[vault]") {
  const table_of table;
  const bool is_last = GENERATE(false, true);
  std::vector<std::future<result_of>> with;
  const auto start = [&] {
    for (const std::uint32_t node : {0u, 2u})
      with.push_back(table.start(table.place(node, 3), always, has_it));
  };
  if (is_last) {
    start();
    std::string problem;
    auto store =
        ddprun::worker::store_client::connect("127.0.0.1", table.store.port(), patience, problem);
    REQUIRE(store.has_value());
    const std::vector<std::string> words = {"ddprun-vault/3/word/0", "ddprun-vault/3/word/2"};
    REQUIRE_FALSE(store->wait(words, patience));
  }
  CHECK(say_without_vault(table.place(1, 3)));
  if (!is_last) start();
  for (auto& each : with) {
    const result_of made = each.get();
    INFO(made.why.problem);
    REQUIRE(made.found);
    CHECK(made.found->choice.key.name == "step-2");
    CHECK_FALSE(made.found->words[1].has_vault);
    CHECK_FALSE(made.found->choice.parts.contains(1));
  }
}

TEST_CASE("a word that cannot be read is one line for all, at once", "[vault]") {
  const table_of table;
  std::string problem;
  auto store =
      ddprun::worker::store_client::connect("127.0.0.1", table.store.port(), patience, problem);
  REQUIRE(store.has_value());
  REQUIRE_FALSE(store->set("ddprun-vault/3/word/1", "ddprun vault 9\n", patience));
  REQUIRE(store->add("ddprun-vault/3/arrived-0", 1, patience) == 1);
  const result_of made = table.start(table.place(0), always, has_it).get();
  CHECK_FALSE(made.found);
  CHECK(made.why.problem ==
        "cannot read what node 1 says of its vault: use the same version of ddprun on every "
        "node");
  const auto verdict = store->get("ddprun-vault/3/verdict-1", patience);
  REQUIRE(verdict);
  CHECK(*verdict == "apart " + made.why.problem);
}

TEST_CASE("a node that gives no sign of life is not waited for, one that does is", "[vault]") {
  const table_of table;
  round_place here = table.place(0);
  here.silence_limit = 1ms;
  std::promise<void> is_given_up;
  const auto given_up = is_given_up.get_future().share();
  auto second =
      table.start(table.place(1), always, [given_up](const agreed&, const std::function<bool()>&) {
        given_up.wait();  // as where a disk hangs
        return true;
      });
  const result_of first = table.start(here, always, has_it).get();
  is_given_up.set_value();
  CHECK_FALSE(first.found);
  CHECK(first.why.problem == "node 1 gives no sign of life");
  const result_of hung = second.get();
  CHECK_FALSE(hung.found);
  CHECK(hung.why.problem == first.why.problem);
}

TEST_CASE("a part that takes long is waited for as long as its node is alive", "[vault]") {
  const table_of table;
  std::atomic<bool> waits = false;
  // Runs until the other node has waited for its answer for more than one beat.
  auto second =
      table.start(table.place(1), always, [&](const agreed&, const std::function<bool()>& goes_on) {
        std::string problem;
        auto store = ddprun::worker::store_client::connect("127.0.0.1", table.store.port(),
                                                           patience, problem);
        const auto beat = [&] { return *store->get("ddprun-vault/3/alive/1", patience); };
        while (!waits)
          std::this_thread::yield();
        const std::string before = beat();
        while (beat() == before && goes_on())
          std::this_thread::yield();
        return true;
      });
  const result_of first = table
                              .start(table.place(0), always,
                                     [&](const agreed&, const auto&) {
                                       waits = true;
                                       return true;
                                     })
                              .get();
  INFO(first.why.problem);
  REQUIRE(first.found);
  CHECK(first.found->choice.key.name == "step-2");
  CHECK(second.get().found);
}

TEST_CASE("a round of many nodes asks the store a few questions of each", "[vault]") {
  constexpr std::uint32_t nodes = 64;
  const table_of table;
  counting_relay relay(table.store.port());
  std::vector<std::future<result_of>> all;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    round_place here = table.place(node, nodes);
    here.store_port = relay.port();
    here.beat_interval = patience;
    all.push_back(table.start(here, always, has_it));
  }
  for (auto& each : all)
    CHECK(each.get().found);
  const auto asked = relay.asked();
  // Its word, two arrivals, two verdicts (a wait and a read each), all words (likewise), and a
  // heartbeat.
  CHECK(asked.requests <= nodes * 12);
  // All words twice; otherwise one key per request.
  CHECK(asked.keys <= std::size_t{nodes} * (2 * nodes + 12));
}
