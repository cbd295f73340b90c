#include "launcher/cli/rendezvous_conf.hpp"

#include "tests/support/catch.hpp"

#include <chrono>

using namespace std::chrono_literals;

namespace {

ddprun::launcher::rendezvous_conf conf_of(std::string_view text) {
  const auto conf = ddprun::launcher::read_rendezvous_conf("--rdzv-conf", text);
  INFO(text);
  if (!conf) FAIL(conf.error().text);
  return *conf;
}

std::string conf_error(std::string_view text) {
  const auto conf = ddprun::launcher::read_rendezvous_conf("--rdzv-conf", text);
  return conf ? std::string() : conf.error().text;
}

}  // namespace

TEST_CASE("timers are read by name, in seconds with fractions") {
  const ddprun::launcher::rendezvous_conf conf =
      conf_of("join_timeout=30,stop_grace=0.25,settle=0,linger=1.5");
  CHECK(conf.timing.join_timeout == 30s);
  CHECK(conf.timing.stop_grace == 250ms);
  CHECK(conf.timing.settle == 0s);
  CHECK(conf.timing.linger == 1500ms);
  CHECK(conf.notes.empty());
  CHECK(conf_of("").timing == ddprun::timers{});
  CHECK(conf_of(" join_timeout= 30  ,  settle =0").timing ==
        conf_of("join_timeout=30,settle=0").timing);
  CHECK(conf_of("join_timeout=30,").timing.join_timeout == 30s);
}

TEST_CASE("timers that are not given follow from node_timeout") {
  CHECK(conf_of("node_timeout=3").timing == ddprun::timers_for(3s));
  CHECK(conf_of("isolation_limit=2,node_timeout=3").timing.isolation_limit == 2s);
  const ddprun::timers quick = conf_of("heartbeat_interval=0.1,node_timeout=3").timing;
  CHECK(quick.heartbeat_interval == 100ms);
  CHECK(quick.isolation_limit == 2800ms);
}

TEST_CASE("torchrun's keep-alive is a node timeout") {
  CHECK(conf_of("keep_alive_interval=2,keep_alive_max_attempt=4").timing.node_timeout == 8s);
  CHECK(conf_of("keep_alive_interval=2").timing.node_timeout == 6s);
  CHECK(conf_of("keep_alive_max_attempt=2").timing.node_timeout == 10s);
  CHECK(conf_of("keep_alive_interval=2,node_timeout=5").timing.node_timeout == 5s);
}

TEST_CASE("torchrun's other keys are used or said to be ignored") {
  CHECK(conf_of("is_host=Yes").is_host == true);
  CHECK(conf_of("is_host=f").is_host == false);
  for (const char* tcp : {"tcp", "tCp", "TCP"})
    CHECK_FALSE(conf_of("store_type=" + std::string(tcp)).is_host.has_value());
  for (const char* key : {"timeout", "read_timeout", "close_timeout", "heartbeat_timeout",
                          "cas_backoff_max_seconds"}) {
    const auto notes = conf_of(std::string(key) + "=7").notes;
    REQUIRE(notes.size() == 1);
    CHECK(notes.front().starts_with("--rdzv-conf " + std::string(key) + " is ignored: "));
  }
}

TEST_CASE("a bad key, value or combination is named") {
  CHECK(conf_error("join_timeout") == "--rdzv-conf: 'join_timeout' is not KEY=VALUE");
  CHECK(conf_error("join_timeout=") == "--rdzv-conf: 'join_timeout=' is not KEY=VALUE");
  CHECK(conf_error("=5") == "--rdzv-conf: '=5' is not KEY=VALUE");
  CHECK(conf_error("join_timeot=5") ==
        "--rdzv-conf: unknown key 'join_timeot'; did you mean 'join_timeout'?");
  for (const char* bad : {"join_timeout=  ", "  =5", " = "})
    CHECK(conf_error(bad) == "--rdzv-conf: '" + std::string(bad) + "' is not KEY=VALUE");
  CHECK(conf_error("colour=red") == "--rdzv-conf: unknown key 'colour'");
  const std::string seconds = "write seconds from 0.001 to 2592000; fractions are fine";
  CHECK(conf_error("join_timeout=0") == "--rdzv-conf, join_timeout: " + seconds);
  for (const char* bad : {"soon", "-1", "1s", "nan", "inf", "1e99"})
    CHECK(conf_error("linger=" + std::string(bad)) == "--rdzv-conf, linger: " + seconds);
  CHECK(conf_error("is_host=maybe") == "--rdzv-conf: is_host is true or false");
  CHECK(conf_error("store_type=file") ==
        "--rdzv-conf: store_type=file is not supported; only tcp is");
  CHECK(conf_error("heartbeat_interval=5") ==
        "--rdzv-conf: heartbeat_interval 5 s is more than a third of node_timeout 10 s");
  CHECK(conf_error("isolation_limit=10") ==
        "--rdzv-conf: isolation_limit 10 s must be from 2 heartbeat_interval to node_timeout - "
        "heartbeat_interval (2 s to 9 s)");
  CHECK(conf_error("reconnect_grace=11") ==
        "--rdzv-conf: reconnect_grace 11 s is longer than node_timeout 10 s");
  CHECK(conf_error("keep_alive_interval=5000,keep_alive_max_attempt=1000") ==
        "--rdzv-conf: node_timeout is 5000000 s, and may be 0.001 to 2592000 s");
  CHECK(conf_error("settle=6,settle_max=5") ==
        "--rdzv-conf: settle 6 s is longer than settle_max 5 s");
}
