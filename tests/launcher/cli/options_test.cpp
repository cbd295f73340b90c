#include "launcher/cli/options.hpp"

#include "tests/launcher/cli/parsed_options.hpp"

#include <chrono>

using namespace std::chrono_literals;
using ddprun::environment_map;
using ddprun::launcher::launch_options;
using ddprun::tests::options_of;
using ddprun::tests::usage_error_of;
using ddprun::tests::words;

namespace {

struct error_case {
  const char* line;
  const char* message;
};

}  // namespace

TEST_CASE("one node without an endpoint is standalone") {
  const launch_options options = options_of("train.py --epochs 3");
  CHECK(options.standalone);
  CHECK(options.endpoint.host == "127.0.0.1");
  CHECK(options.endpoint.port == 0);
  CHECK(options.embed == ddprun::launcher::embed_policy::always);
  CHECK(options.run_id.empty());
  CHECK(options.workers.number == 1);
  CHECK(options.settings == ddprun::run_settings{});
  CHECK(options.program == "train.py");
  CHECK(options.arguments == words("--epochs 3"));
  CHECK(options.notes.empty());
}

TEST_CASE("one node at port 0 is standalone too") {
  const launch_options options = options_of("--rdzv-backend=c10d --rdzv-endpoint=localhost:0 a.py");
  CHECK(options.standalone);
  CHECK(to_text(options.endpoint) == "127.0.0.1:0");
  CHECK(options.notes.empty());
}

TEST_CASE("the options of an elastic run are read") {
  const launch_options options = options_of(
      "--nnodes=2:4 --nproc-per-node 8 --rdzv-endpoint node0:1234 --rdzv-id job7 "
      "--rdzv-backend=c10d --max-restarts=3 --max-node-losses=7 --spares=1 --on-join=restart "
      "--node-id=left --node-rank=1 --local-addr=10.0.0.1 --master-port=29500 --role=trainer "
      "--nccl-ids=off --log-level=debug --monitor-interval=0.5 --shutdown-timeout=2.5 -m "
      "package.train -x");
  CHECK(options.settings.nodes_min == 2);
  CHECK(options.settings.nodes_max == 4);
  CHECK(options.workers.number == 8);
  CHECK_FALSE(options.standalone);
  CHECK(to_text(options.endpoint) == "node0:1234");
  CHECK(options.run_id == "job7");
  CHECK(options.settings.restarts_max == 3);
  CHECK(options.settings.node_losses_max == 7);
  CHECK(options.settings.spares_max == 1);
  CHECK(options.settings.on_join == ddprun::join_policy::restart);
  CHECK(options.settings.timing.drain_grace == 2500ms);
  CHECK(options.node_id == "left");
  CHECK(options.node_rank == 1U);
  CHECK(options.local_address == "10.0.0.1");
  CHECK(options.master_port == 29500);
  CHECK(options.role == "trainer");
  CHECK(options.nccl_ids == ddprun::launcher::nccl_id_mode::off);
  CHECK(options.log.least == ddprun::note_level::debug);
  CHECK(options.module);
  CHECK(options.program == "package.train");
  CHECK(options.arguments == words("-x"));
  CHECK(options.notes.empty());
}

TEST_CASE("dashes, underscores, prefixes and both forms of values mean the same") {
  for (const char* line :
       {"--nproc-per-node=3 a.py", "--nproc_per_node=3 a.py", "--nproc_per-node 3 a.py",
        "--nproc 3 a.py", "--np=3 a.py", "--nproc_p=3 a.py", "--nproc-per-node=2 --np 3 a.py"}) {
    CHECK(options_of(line).workers.number == 3);
  }
  CHECK(options_of("--stand a.py").standalone);
  CHECK(options_of("--rdzv_end=h --rdzv_id=x --nnode=2 a.py").settings.nodes_max == 2);
  CHECK(options_of("--no-python a.out").no_python);
  CHECK(options_of("--no_py a.out").no_python);
  // An abbreviation that names one option of torchrun still does, whatever options we have added.
  CHECK(options_of("--max=3 a.py").settings.restarts_max == 3);
  CHECK(options_of("--node=3 a.py").node_rank == 3U);
  CHECK(options_of("--spar=3 a.py").settings.spares_max == 3);
}

TEST_CASE("an empty run id is none, and an empty role is a role") {
  const launch_options options =
      options_of("--nnodes=2 --rdzv-endpoint=node0 --rdzv-id= --role= a.py");
  CHECK(options.run_id == options_of("--nnodes=2 --rdzv-endpoint=node0 a.py").run_id);
  CHECK(options.role.empty());
  CHECK(options_of("a.py").role == "default");
}

TEST_CASE("everything after the script is the script's") {
  const launch_options options = options_of("--nproc-per-node=2 a.py --nnodes 3:2 -- --help -m");
  CHECK(options.settings.nodes_max == 1);
  CHECK(options.arguments == words("--nnodes 3:2 -- --help -m"));
  CHECK(options_of("-- --odd-name.py x").program == "--odd-name.py");
  // argparse, and so torchrun, drops the first "--".
  CHECK(options_of("a.py -- x -- y").arguments == words("x -- y"));
  CHECK(options_of("a.py -- --").arguments == words("--"));
  CHECK(options_of("a.py x -- y").arguments == words("x -- y"));
  // Only the first one, wherever it is.
  CHECK(options_of("-- a.py x").arguments == words("x"));
  CHECK(options_of("-- a.py -- x").arguments == words("-- x"));
  CHECK(options_of("--no-python -- echo -- x").arguments == words("-- x"));
}

TEST_CASE("workers are a number, auto, cpu, gpu or xpu") {
  using kind = ddprun::launcher::worker_count_kind;
  CHECK(options_of("--nproc-per-node=auto a.py").workers.kind == kind::automatic);
  CHECK(options_of("--nproc-per-node=cpu a.py").workers.kind == kind::cpu);
  CHECK(options_of("--nproc-per-node=gpu a.py").workers.kind == kind::gpu);
  CHECK(options_of("--nproc-per-node=xpu a.py").workers.kind == kind::xpu);
  CHECK(options_of("--nproc-per-node=gpu --nproc-per-node=4 a.py").workers.kind == kind::number);
}

TEST_CASE(
    "what is found out of ranks that stand still has a limit, and a hang is what is asked for") {
  CHECK(options_of("a.py").evidence_limit == std::chrono::seconds(2));
  CHECK(options_of("--evidence 0.5 a.py").evidence_limit == std::chrono::milliseconds(500));
  CHECK(options_of("--evidence=0 a.py").evidence_limit == 0s);
  CHECK_FALSE(options_of("a.py").asks_collectives);
  CHECK(options_of("--collectives on a.py").asks_collectives);
  CHECK(usage_error_of("--collectives=yes a.py") == "--collectives=yes: write on or off");
  for (const std::string words : {"a.py", "--hang-timeout auto a.py"}) {
    CHECK(options_of(words).hang.is_named);
    CHECK_FALSE(options_of(words).hang.limit);
  }
  CHECK_FALSE(options_of("--hang-timeout=off a.py").hang.is_named);
  CHECK(options_of("--hang-timeout 600 a.py").hang.limit == std::chrono::seconds(600));
  CHECK(usage_error_of("--hang-timeout=0 a.py") ==
        "--hang-timeout=0: write auto, off, or seconds from 0.001");
}

TEST_CASE("spares that wait are a number, as many as workers, or none") {
  CHECK(options_of("a.py").warm_spares == 0U);
  CHECK(options_of("--warm=off a.py").warm_spares == 0U);
  CHECK(options_of("--warm 3 a.py").warm_spares == 3U);
  CHECK_FALSE(options_of("--warm auto a.py").warm_spares);
  CHECK(usage_error_of("--warm=on a.py") == "--warm=on: write auto, off or a number of spares");
}

TEST_CASE("endpoints may be IPv6 and leave the port out") {
  const auto endpoint = [](const std::string& text) {
    return to_text(options_of("--nnodes=2 --rdzv-endpoint=" + text + " a.py").endpoint);
  };
  CHECK(endpoint("node0") == "node0:29400");
  CHECK(endpoint("10.0.0.1:5") == "10.0.0.1:5");
  CHECK(endpoint("[fd00::1]:5") == "[fd00::1]:5");
  CHECK(endpoint("[fd00::1]") == "[fd00::1]:29400");
  CHECK(endpoint("fd00::1") == "[fd00::1]:29400");
  CHECK(options_of("--nnodes=2 --rdzv-endpoint=h a.py").run_id == "none");
}

TEST_CASE("PET variables give defaults and the command line wins") {
  const environment_map environment = {{"PET_NPROC_PER_NODE", "4"},  {"PET_NNODES", "2"},
                                       {"PET_RDZV_ENDPOINT", "h:1"}, {"PET_NO_PYTHON", "1"},
                                       {"PET_MODULE", "0"},          {"PET_TEE", "0"},
                                       {"LOGLEVEL", "WARNING"}};
  const launch_options options = options_of("--nproc-per-node=3 a.out", environment);
  CHECK(options.workers.number == 3);
  CHECK(options.settings.nodes_max == 2);
  CHECK(to_text(options.endpoint) == "h:1");
  CHECK(options.no_python);
  CHECK_FALSE(options.module);
  CHECK(options.log.least == ddprun::note_level::warning);
  CHECK(options_of("a.py", {{"LOGLEVEL", "verbose"}}).log.least == ddprun::note_level::info);
  CHECK(usage_error_of("a.py", {{"PET_NNODES", "3:2"}}).starts_with("PET_NNODES=3:2: "));
  CHECK(usage_error_of("a.py", {{"PET_STANDALONE", "yes"}}) ==
        "PET_STANDALONE=yes: a flag in the environment is 1 or 0");
  CHECK(options_of("a.py", {{"PET_LOG_DIR", "logs"}}).output.log_dir == "logs");
}

TEST_CASE("mistakes are answered with what, where and what to do") {
  const error_case cases[] = {
      {"", "no script given; usage: ddprun [OPTIONS] SCRIPT [ARGUMENTS], and ddprun --help"},
      {"--nnodes=3:2 a.py",
       "--nnodes=3:2: the minimum 3 is above the maximum 2; write --nnodes=2:3"},
      {"--nnodes 0 a.py", "--nnodes=0: a run needs at least 1 node"},
      {"--nnodes=two a.py",
       "--nnodes=two: write the number of nodes as N, or as MIN:MAX for an elastic run"},
      {"--nnodes=1:2:3 a.py",
       "--nnodes=1:2:3: write the number of nodes as N, or as MIN:MAX for an elastic run"},
      {"--nproc-per-node=0 a.py",
       "--nproc-per-node=0: the number of workers is a whole number from 1 to 4096"},
      {"--nproc-per-node=-1 a.py",
       "--nproc-per-node=-1: write a number of workers, or auto, cpu, gpu or xpu"},
      {"--nproc-per-node=hpu a.py",
       "--nproc-per-node=hpu: write a number of workers, or auto, cpu, gpu or xpu"},
      {"--nproc-per-nod a.py",
       "--nproc-per-nod=a.py: write a number of workers, or auto, "
       "cpu, gpu or xpu"},
      {"--nprocpernode=2 a.py",
       "unknown option --nprocpernode; did you mean --nproc-per-node? ddprun --help lists all "
       "(options of the script come after the script)"},
      {"--max-restrats=2 a.py",
       "unknown option --max-restrats; did you mean --max-restarts? ddprun --help lists all "
       "(options of the script come after the script)"},
      {"--learning-rate=2 a.py",
       "unknown option --learning-rate; ddprun --help lists all (options of the script come after "
       "the script)"},
      {"-y a.py",
       "unknown option -y; long options start with two dashes, and ddprun --help lists all"},
      {"-my a",
       "unknown option -y in -my; long options start with two dashes, and ddprun --help lists all"},
      {"--n=2 a.py",
       "--n could be --nnodes, --node-rank, --no-python, --nproc-per-node or "
       "--numa-binding; write more of it"},
      {"--nnodes", "--nnodes needs a value"},
      {"--nnodes --standalone a.py", "--nnodes needs a value"},
      {"--standalone=1 a.py", "--standalone=1: --standalone takes no value"},
      {"--nnodes=2 a.py",
       "--nnodes=2 needs --rdzv-endpoint=HOST[:PORT], the same on all nodes: a ddprun-rendezvous "
       "daemon, or one of the nodes, which then runs it; or --master-addr=HOST, with --node-rank"},
      {"--nnodes=1:2 --node-rank=0 --master-addr=10.0.0.1 a.py",
       "--nnodes=1:2: nodes that meet at --master-addr are numbered by --node-rank, so how many "
       "there are is fixed: write one number, or use --rdzv-endpoint=HOST[:PORT] for MIN:MAX"},
      {"--nnodes=2 --node-rank=2 --master-addr=10.0.0.1 a.py",
       "--node-rank=2: with --nnodes=2 the nodes have the ranks 0 to 1"},
      {"--nnodes=2 --spares=1 --master-addr=10.0.0.1 a.py",
       "--spares=1: nodes that meet at --master-addr are numbered by --node-rank, and a spare has "
       "no number: leave it out, or use --rdzv-endpoint=HOST[:PORT]"},
      {"--nnodes=2 --embed-daemon=never --master-addr=10.0.0.1 a.py",
       "--embed-daemon=never: with --master-addr the node with --node-rank=0 runs the daemon; "
       "leave it out"},
      {"--nnodes=2 --rdzv-conf=is_host=1 --master-addr=10.0.0.1 a.py",
       "is_host of --rdzv-conf: with --master-addr the node with --node-rank=0 runs the "
       "daemon; leave it out"},
      {"--nnodes=2 --master-port=0 --node-rank=0 a.py",
       "--master-port=0: all nodes must know the port, so it cannot be 0 (29500 when left out)"},
      {"--standalone --nnodes=2 --rdzv-backend=static a.py",
       "--standalone is for one node, and there is --nnodes=2; leave one of the two out"},
      {"--nnodes=2 --rdzv-backend=c10d --master-addr=10.0.0.1 a.py",
       "--nnodes=2 needs --rdzv-endpoint=HOST[:PORT], the same on all nodes: a ddprun-rendezvous "
       "daemon, or one of the nodes, which then runs it; or --master-addr=HOST, with --node-rank"},
      {"--standalone --nnodes=2 a.py",
       "--standalone is for one node, and there is --nnodes=2; leave one of the two out"},
      {"--nnodes=2 --rdzv-endpoint=h:0 a.py",
       "--rdzv-endpoint=h:0: all nodes must know the port, so it cannot be 0 (29400 when left "
       "out)"},
      {"--nnodes=2 --rdzv-endpoint=h:x a.py",
       "--rdzv-endpoint=h:x: the port is a number from 1 to 65535 (29400 when it is left out)"},
      {"--nnodes=2 --rdzv-endpoint=a,b:5 a.py",
       "--rdzv-endpoint=a,b:5: name one endpoint: daemons do not know of each other yet, and two "
       "would divide the nodes among them"},
      {"--rdzv-conf=node_timeout=5,keep_alive_interval=x a.py",
       "--rdzv-conf=node_timeout=5,keep_alive_interval=x, keep_alive_interval: write seconds from "
       "0.001 to 2592000; fractions are fine"},
      {"--nnodes=2 --rdzv-endpoint=:5 a.py",
       "--rdzv-endpoint=:5: the host is missing; write HOST:PORT"},
      {"--nnodes=2 --rdzv-endpoint=[::1 a.py", "--rdzv-endpoint=[::1: the bracket is not closed"},
      {"--nnodes=2 --rdzv-endpoint=tcp://h:5 a.py",
       "--rdzv-endpoint=tcp://h:5: write the endpoint as HOST:PORT, without a scheme"},
      {"--rdzv-backend=etcd-v2 a.py",
       "--rdzv-backend=etcd-v2: etcd is not supported; use --rdzv-backend=c10d with "
       "--rdzv-endpoint of a ddprun-rendezvous daemon, or of the first node"},
      {"--rdzv-backend=zeus a.py",
       "--rdzv-backend=zeus: unknown rendezvous backend; use c10d or static"},
      {"--max-restarts=-1 a.py",
       "--max-restarts=-1: the number of restarts is a whole number from 0 to 1000000000"},
      {"--max-restarts -1 a.py",
       "--max-restarts=-1: the number of restarts is a whole number from 0 to 1000000000"},
      {"--on-join=never a.py",
       "--on-join=never: write wait (new nodes wait for the next round) or restart"},
      {"--placeholders=off a.py",
       "--placeholders=off: write on ({rank} and its like are replaced) or torchrun (only "
       "${local_rank})"},
      {"--store=daemon a.py",
       "--store=daemon: write agent (ddprun serves the workers' TCPStore) or worker (rank 0 does)"},
      {"--log-level=loud a.py", "--log-level=loud: write debug, info, warning or error"},
      {"--master-port=70000 a.py",
       "--master-port=70000: the port is a number from 1 to 65535, or 0 for a new one"},
      {"--embed-daemon=never a.py",
       "--embed-daemon=never needs --rdzv-endpoint=HOST[:PORT]: without one, the daemon of this "
       "run is in this process"},
      {"--embed-daemon=never --rdzv-conf=is_host=1 --rdzv-endpoint=h a.py",
       "--embed-daemon=never contradicts is_host of --rdzv-conf; leave one out"},
      {"-m --no-python a",
       "--no-python and -m: a module is run by Python; leave one of the two out"},
  };
  for (const error_case& expected : cases) {
    INFO("ddprun " << expected.line);
    CHECK(usage_error_of(expected.line) == expected.message);
  }
}

TEST_CASE("options of torchrun that are not there yet are known names") {
  for (const char* line : {"--logs-specs=x a.py"}) {
    INFO("ddprun " << line);
    CHECK(usage_error_of(line).find(" is not supported: ") != std::string::npos);
  }
}

TEST_CASE("the beginning of an option's name is taken for it, and that is said") {
  CHECK(options_of("--nproc_per_node=2 --max-restarts 1 a.py").notes.empty());
  CHECK(options_of("--local_ranks 0 a.py").notes ==
        std::vector<std::string>{"--local_ranks=0 is taken for --local-ranks-filter"});
  CHECK(usage_error_of("--local_rank=0 a.py") ==
        "--local_rank=0: that is an argument of scripts; ddprun --pass-local-rank gives each "
        "worker its own, and LOCAL_RANK is in the environment");
}

TEST_CASE("scripts for shells are printed, whatever else is missing") {
  const auto answer = [](const std::string& line) {
    return std::get<ddprun::cli::show_text>(ddprun::launcher::parse_options(words(line), {})).text;
  };
  CHECK(answer("--print-completion bash").starts_with("# ddprun --print-completion bash"));
  CHECK(answer("--print-completion=zsh").starts_with("#compdef ddprun"));
  CHECK(usage_error_of("--print-completion=fish") == "--print-completion=fish: write bash or zsh");
}

TEST_CASE("options of torchrun that mean nothing here are taken, with a calm word") {
  const auto notes = [](const std::string& line) { return options_of(line).notes; };
  CHECK(notes("--start-method=spawn --event-log-handler=null --use-env a.py").empty());
  CHECK(notes("--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT a.py").empty());
  CHECK(notes("--start-method=fork a.py") ==
        std::vector<std::string>{
            "--start-method=fork is ignored: ddprun starts programs, not Python functions"});
  CHECK(notes("--event-log-handler=console a.py").size() == 1);
  CHECK(notes("--exit-barrier-timeout=60 a.py").size() == 1);
  CHECK(notes("--signals-to-handle=SIGTERM,SIGUSR1 a.py") ==
        std::vector<std::string>{
            "--signals-to-handle=SIGTERM,SIGUSR1 is ignored: SIGTERM, SIGINT, SIGHUP and SIGQUIT "
            "end this node's part in order, SIGUSR1 and SIGUSR2 go on to the workers"});
  CHECK(usage_error_of("--start-method=thread a.py") ==
        "--start-method=thread: write spawn, fork or forkserver");
  CHECK(options_of("--virtual-local-rank a.py").virtual_local_rank);
  CHECK(options_of("a.py", {{"PET_VIRTUAL_LOCAL_RANK", "1"}}).virtual_local_rank);
}

TEST_CASE("help and version answer whatever else is written") {
  for (const char* line : {"--help", "-h", "--version", "--nnodes=2 --help", "--he"}) {
    INFO("ddprun " << line);
    CHECK(std::holds_alternative<ddprun::cli::show_text>(
        ddprun::launcher::parse_options(words(line), {{"PET_NNODES", "3:2"}})));
  }
}

TEST_CASE("is_host and --embed-daemon say where the daemon may be") {
  using policy = ddprun::launcher::embed_policy;
  const std::string remote = "--nnodes=2 --rdzv-endpoint=h ";
  CHECK(options_of(remote + "a.py").embed == policy::automatic);
  CHECK(options_of(remote + "--embed-daemon=always a.py").embed == policy::always);
  CHECK(options_of(remote + "--rdzv-conf=is_host=true a.py").embed == policy::always);
  CHECK(options_of(remote + "--rdzv-conf=is_host=0 a.py").embed == policy::never);
  CHECK(options_of("--rdzv-endpoint=h a.py").embed == policy::automatic);
  CHECK_FALSE(options_of("--rdzv-endpoint=h a.py").standalone);
}

TEST_CASE("a script with a store of its own is given the port") {
  using ddprun::store_mode;
  const auto mode = [](const std::string& line, const environment_map& environment = {}) {
    const launch_options options = options_of(line, environment);
    CHECK(options.notes.size() == (options.settings.store == store_mode::worker ? 1U : 0U));
    return options.settings.store;
  };
  CHECK(mode("a.py --dist-url tcp://127.0.0.1:23456") == store_mode::worker);
  CHECK(mode("a.py --dist-url=tcp://[::1]:23456") == store_mode::worker);
  CHECK(mode("--master-port=23456 a.py tcp://127.0.0.1:23456") == store_mode::agent);
  CHECK(mode("a.py tcp://{master_addr}:{master_port}") == store_mode::agent);
  CHECK(mode("a.py {master_url} tcp:// tcp://host") == store_mode::agent);
  CHECK(mode("--store=agent a.py tcp://127.0.0.1:23456") == store_mode::agent);
  CHECK(mode("a.py", {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}}) == store_mode::worker);
  CHECK(mode("a.py", {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}}) == store_mode::agent);
  CHECK(options_of("--store=worker a.py").settings.store == store_mode::worker);
}

TEST_CASE("a PyTorch that knows which store is the launcher's keeps it") {
  using ddprun::store_mode;
  int asked = 0;
  const auto mode = [&asked](const std::string& line, const std::string& torch) {
    asked = 0;
    const auto outcome = ddprun::launcher::parse_options(words(line), {}, [&] {
      ++asked;
      return torch;
    });
    return std::get<launch_options>(outcome).settings.store;
  };
  const std::string own = "a.py --dist-url=tcp://127.0.0.1:23456";
  for (const char* const torch : {"2.14.0", "2.15.0+cu132", "2.100.1", "3.0.0"}) {
    CHECK(mode(own, torch) == store_mode::agent);
    CHECK(asked == 1);
  }
  for (const char* const torch : {"2.11.0", "2.13.9", "1.20.0", "", "2", "x.y"})
    CHECK(mode(own, torch) == store_mode::worker);
  // PyTorch's version is not looked up if it does not matter.
  CHECK(mode("a.py", "2.15.0") == store_mode::agent);
  CHECK(mode("--store=worker " + own, "2.15.0") == store_mode::worker);
  CHECK(mode("--no-python ./a.out tcp://127.0.0.1:23456", "2.15.0") == store_mode::worker);
  CHECK(asked == 0);
}

TEST_CASE("what is not used is said") {
  CHECK(options_of("--standalone --rdzv-endpoint=h:5 a.py").notes ==
        std::vector<std::string>{"--rdzv-endpoint=h:5 is ignored with --standalone"});
  CHECK(options_of("--master-addr=10.0.0.1 a.py").local_address == "10.0.0.1");
  const launch_options two = options_of("--nnodes=2 --rdzv-endpoint=h --master-addr=10.0.0.1 a.py");
  CHECK(two.local_address.empty());
  REQUIRE(two.notes.size() == 1);
  CHECK(two.notes.front().starts_with("--master-addr=10.0.0.1 is ignored: "));
}
