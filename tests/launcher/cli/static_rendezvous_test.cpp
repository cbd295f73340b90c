// --nnodes=2 --node-rank=R --master-addr=A --master-port=P, and its meaning beside other options.
#include "tests/launcher/cli/parsed_options.hpp"

namespace ddprun::launcher {

using tests::options_of;
TEST_CASE("nodes with ranks meet at the master's address, and the first one has the daemon") {
  const std::string line = "--nnodes=2 --master-addr=10.0.0.1 --master-port=29611 ";
  const launch_options first = options_of(line + "--node-rank=0 a.py");
  CHECK(first.is_static);
  CHECK_FALSE(first.standalone);
  CHECK(to_text(first.endpoint) == "10.0.0.1:29611");
  CHECK(first.embed == embed_policy::always);
  CHECK(first.settings.ranks == rank_policy::exact);
  CHECK(first.node_rank == 0U);
  CHECK(first.master_port == 29611);
  CHECK(first.local_address == "10.0.0.1");
  CHECK(first.run_id == "none");
  CHECK(first.notes.empty());

  const launch_options second =
      options_of(line + "--node-rank=1 --rdzv-id=job --local-addr=10.9.9.9 a.py");
  CHECK(second.is_static);
  CHECK(to_text(second.endpoint) == "10.0.0.1:29611");
  CHECK(second.embed == embed_policy::never);
  CHECK(second.local_address == "10.9.9.9");
  CHECK(second.run_id == "job");
  CHECK(second.settings == first.settings);
}

TEST_CASE("what is left out is as with torchrun: rank 0, port 29500, this host") {
  const launch_options no_rank = options_of("--nnodes=2 --master-addr=h a.py");
  CHECK(no_rank.is_static);
  CHECK(no_rank.node_rank == 0U);
  CHECK(no_rank.embed == embed_policy::automatic);  // if the address is its own
  CHECK(to_text(no_rank.endpoint) == "h:29500");
  CHECK(to_text(options_of("--nnodes=2 --node-rank=1 a.py").endpoint) == "127.0.0.1:29500");
  CHECK(to_text(options_of("--nnodes=2 --master-port=5000 a.py").endpoint) == "127.0.0.1:5000");
  CHECK(to_text(options_of("--nnodes=2 --rdzv-backend=static a.py").endpoint) == "127.0.0.1:29500");
}

TEST_CASE("an address that was left empty is none") {
  CHECK(options_of("--local-addr= a.py").local_address.empty());
  CHECK(options_of("a.py", {{"PET_LOCAL_ADDR", ""}, {"PET_MASTER_ADDR", ""}, {"PET_NNODES", ""}})
            .standalone);
}

TEST_CASE("where the nodes meet cannot be left empty by hand") {
  CHECK(options_of("--master-addr= --nproc-per-node=2 a.py").standalone);
  CHECK(options_of("--nnodes=2 --master-addr= --master-addr=h a.py").endpoint.host == "h");
  CHECK(tests::usage_error_of("--nnodes=2 --node-rank=1 --master-addr= a.py") ==
        "--master-addr= is empty (is it a shell variable that is not set?): write the address of "
        "the node with --node-rank=0, on all nodes");
}

TEST_CASE("a blank that a template has left at a number or an endpoint is none") {
  const launch_options options = options_of("a.py", {{"PET_NNODES", " 2\n"},
                                                     {"PET_NPROC_PER_NODE", "3 "},
                                                     {"PET_NODE_RANK", "1\r\n"},
                                                     {"PET_RDZV_BACKEND", "c10d"},
                                                     {"PET_RDZV_ENDPOINT", " h:5 \n"}});
  CHECK(options.settings.nodes_max == 2);
  CHECK(options.workers.number == 3);
  CHECK(options.node_rank == 1U);
  CHECK(to_text(options.endpoint) == "h:5");
}

TEST_CASE("the variables of a pod say it, too") {
  const launch_options options = options_of("a.py", {{"PET_NNODES", "2"},
                                                     {"PET_NODE_RANK", "1"},
                                                     {"PET_MASTER_ADDR", "h"},
                                                     {"PET_MASTER_PORT", "23456"}});
  CHECK(options.is_static);
  CHECK(options.node_rank == 1U);
  CHECK(to_text(options.endpoint) == "h:23456");
}

TEST_CASE("an endpoint means c10d, unless the backend is static") {
  const launch_options elastic =
      options_of("--nnodes=2 --node-rank=1 --rdzv-endpoint=h:5 --master-addr=x a.py");
  CHECK_FALSE(elastic.is_static);
  CHECK(elastic.settings.ranks == rank_policy::hint);
  CHECK(elastic.notes.size() == 1);
  const launch_options fixed =
      options_of("--nnodes=2 --node-rank=0 --rdzv-backend=static --rdzv-endpoint=h:5 a.py");
  CHECK(fixed.is_static);
  CHECK(to_text(fixed.endpoint) == "h:5");
  CHECK(fixed.master_port == 5);
  CHECK(fixed.local_address == "h");
  CHECK(fixed.notes.empty());
  const launch_options both =
      options_of("--nnodes=2 --rdzv-backend=static --rdzv-endpoint=h:5 --master-addr=x a.py");
  CHECK(to_text(both.endpoint) == "h:5");
  CHECK(both.notes == std::vector<std::string>{
                          "--master-addr and --master-port are ignored: --rdzv-endpoint=h:5 says "
                          "where the nodes meet"});
}

// Scripts that have one variable for both do this; torchrun's c10d never reads --master-port.
TEST_CASE("the master's port is left to a daemon that has the same") {
  const launch_options two = options_of(
      "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=h:29500 --master-addr=h --master-port=29500 "
      "--node-rank=1 a.py");
  CHECK_FALSE(two.is_static);
  CHECK(two.endpoint.port == 29500);
  CHECK(two.master_port == 0);
  REQUIRE(two.notes.size() == 2);
  CHECK(two.notes.back() ==
        "--master-port=29500 is ignored: the rendezvous daemon of --rdzv-endpoint=h:29500 has that "
        "port, and workers get a new one each round");
  CHECK(options_of("--rdzv-endpoint=h:29500 --master-port=29500 a.py").master_port == 0);
  CHECK(options_of("--rdzv-endpoint=h:29500 --master-port=29501 a.py").master_port == 29501);
  CHECK(options_of("--standalone --rdzv-endpoint=h:29500 --master-port=29500 a.py").master_port ==
        29500);
}

TEST_CASE("one node needs no rendezvous") {
  const launch_options alone =
      options_of("--node-rank=0 --master-addr=10.0.0.1 --master-port=5000 a.py");
  CHECK_FALSE(alone.is_static);
  CHECK(alone.standalone);
  CHECK(alone.master_port == 5000);
  CHECK(alone.local_address == "10.0.0.1");
  const launch_options named =
      options_of("--rdzv-backend=static --rdzv-endpoint=localhost:5000 a.py");
  CHECK(named.standalone);
  CHECK(named.master_port == 5000);
  CHECK(named.local_address == "localhost");
}

TEST_CASE(
    "workers that serve the store have a port of their own, for the daemon has the master's") {
  const std::string line = "--nnodes=2 --node-rank=0 --master-addr=h --master-port=5000 ";
  CHECK(options_of(line + "--store=worker a.py").master_port == 0);
  CHECK(options_of(line + "a.py --init tcp://h:5000").master_port == 5000);
  CHECK(options_of(line + "a.py --init tcp://h:5001").master_port == 0);
}

TEST_CASE("another address for the first node than the master's is no news to workers") {
  const launch_options options =
      options_of("--nnodes=2 --node-rank=0 --master-addr=h --local-addr=10.0.0.1 a.py");
  CHECK(options.local_address == "h");
  CHECK(options.notes ==
        std::vector<std::string>{"--local-addr=10.0.0.1 is ignored: workers are told h, the "
                                 "--master-addr"});
}

}  // namespace ddprun::launcher
