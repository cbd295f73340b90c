#include "launcher/agent/worker_environment.hpp"

#include "launcher/agent/rank_variables.hpp"
#include "tests/support/catch.hpp"

#include <set>

using ddprun::environment_map;

namespace {

// Node 1 of a round with 2 + 3 workers.
ddprun::launcher::worker_round second_node() {
  ddprun::launcher::worker_round round;
  round.instance = 77;
  round.round = 4;
  round.restarts_used = 2;
  round.worker_count = 3;
  round.node = "node-b";
  round.run_id = "job7";
  round.mark = "00ab";
  round.assignment.group_rank = 1;
  round.assignment.group_world_size = 2;
  round.assignment.rank_first = 2;
  round.assignment.world_size = 5;
  round.assignment.master_address = "10.0.0.1";
  round.assignment.master_port = 29501;
  return round;
}

std::vector<std::string> command(const std::vector<std::string>& arguments) {
  ddprun::launcher::launch_options options;
  options.program = "train.py";
  options.arguments = arguments;
  return worker_command_line(options, second_node(), 1, 4321);
}

std::string filled(const std::string& argument) {
  return command({argument}).back();
}

}  // namespace

TEST_CASE("a worker gets every variable of torchrun and ours") {
  ddprun::launcher::launch_options options;
  options.settings.restarts_max = 9;
  options.role = "trainer";
  const environment_map expected = {
      {"RANK", "3"},
      {"LOCAL_RANK", "1"},
      {"GROUP_RANK", "1"},
      {"ROLE_RANK", "3"},
      {"ROLE_NAME", "trainer"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_WORLD_SIZE", "3"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_WORLD_SIZE", "5"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "29501"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "9"},
      {"TORCHELASTIC_RUN_ID", "job7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", ""},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"GLOO_ENABLE_STORE_V2_API", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"DDPRUN_RUN_ID", "job7"},
      {"DDPRUN_INSTANCE", "4d"},
      {"DDPRUN_ROUND", "4"},
      {"DDPRUN_NODE_ID", "node-b"},
      {"DDPRUN_SESSION", "00ab"},
  };
  CHECK(worker_environment(options, second_node(), 1, {}) == expected);
}

TEST_CASE("Gloo is told its interface, unless the person has chosen one") {
  ddprun::launcher::worker_round round = second_node();
  CHECK_FALSE(worker_environment({}, round, 0, {}).contains("GLOO_SOCKET_IFNAME"));
  round.gloo_interface = "eth1";
  CHECK(worker_environment({}, round, 0, {}).at("GLOO_SOCKET_IFNAME") == "eth1");
  const environment_map chosen = {{"GLOO_SOCKET_IFNAME", "ib0"}};
  CHECK(worker_environment({}, round, 0, chosen).at("GLOO_SOCKET_IFNAME") == "ib0");
}

TEST_CASE("a worker is told where torch's error file goes") {
  ddprun::launcher::worker_round round = second_node();
  round.error_files = {"/logs/0/error.json", "/logs/1/error.json", "/logs/2/error.json"};
  const environment_map worker = worker_environment({}, round, 1, {});
  CHECK(worker.at("TORCHELASTIC_ERROR_FILE") == "/logs/1/error.json");
}

TEST_CASE("a worker is told where it may write how far it is, and never another agent's place") {
  ddprun::launcher::worker_round round = second_node();
  const environment_map inherited = {{"DDPRUN_PROGRESS", "/proc/1/fd/7"}};
  CHECK_FALSE(worker_environment({}, round, 1, inherited).contains("DDPRUN_PROGRESS"));
  round.progress_files = {"/proc/9/fd/3", "/proc/9/fd/4", "/proc/9/fd/5"};
  CHECK(worker_environment({}, round, 1, inherited).at("DDPRUN_PROGRESS") == "/proc/9/fd/4");
}

TEST_CASE("a worker is told where it reads why it is stopped, and never another agent's place") {
  ddprun::launcher::worker_round round = second_node();
  const environment_map inherited = {{"DDPRUN_STOP", "/proc/1/fd/7"}};
  CHECK_FALSE(worker_environment({}, round, 1, inherited).contains("DDPRUN_STOP"));
  round.stop_file = "/proc/9/fd/3";
  CHECK(worker_environment({}, round, 1, inherited).at("DDPRUN_STOP") == "/proc/9/fd/3");
}

TEST_CASE("a worker that may live on is told for how long it is to believe that its round ends") {
  using namespace std::chrono_literals;
  ddprun::launcher::worker_round round = second_node();
  const environment_map inherited = {{"DDPRUN_SURVIVORS", "another agent's"},
                                     {"DDPRUN_SURVIVORS_PATIENCE", "99"}};
  ddprun::launcher::launch_options options;
  options.settings.timing = ddprun::timers_for(30s);
  options.settings.timing.stop_grace = 4500ms;
  const environment_map plain = worker_environment(options, round, 1, inherited);
  CHECK_FALSE(plain.contains("DDPRUN_SURVIVORS"));
  CHECK_FALSE(plain.contains("DDPRUN_SURVIVORS_PATIENCE"));
  round.survivors = "ours";
  const environment_map worker = worker_environment(options, round, 1, inherited);
  CHECK(worker.at("DDPRUN_SURVIVORS") == "ours");
  CHECK(worker.at("DDPRUN_SURVIVORS_PATIENCE") == "35");  // node_timeout and stop_grace, rounded up
}

TEST_CASE("lines begin with node and rank where there are several workers, or as chosen") {
  ddprun::launcher::launch_options options;
  ddprun::launcher::worker_round round = second_node();
  const auto prefix = [&] { return worker_line_prefix(options, round, 1, "host.example"); };
  CHECK(prefix() == "[node-b:3] ");
  round.worker_count = 1;
  CHECK(prefix() == "[node-b:3] ");
  round.assignment.world_size = 1;
  CHECK(prefix().empty());
  options.output.prefix_template = "${hostname} $rank/${world_size} ${other} $$:";
  CHECK(prefix() == "host.example 3/1 ${other} $:");
  options.role = "trainer";
  options.output.prefix_template = "[${role_name}${local_rank}]:${node}.${group_rank}.${round}";
  CHECK(prefix() == "[trainer1]:node-b.1.4");
  options.output.prefix_template = ddprun::launcher::no_prefix;
  CHECK(prefix().empty());
}

TEST_CASE("a worker knows its rank among those of its role") {
  ddprun::launcher::worker_round round = second_node();
  round.assignment.in_role = {1, 4};
  const environment_map set = worker_environment({}, round, 2, {});
  CHECK(set.at("ROLE_RANK") == "3");
  CHECK(set.at("ROLE_WORLD_SIZE") == "4");
  CHECK(set.at("RANK") == "4");
  CHECK(set.at("WORLD_SIZE") == "5");
}

TEST_CASE("the round wins over what is inherited, a person's choice over our default") {
  const environment_map inherited = {{"RANK", "99"},
                                     {"PATH", "/bin"},
                                     {"TORCHELASTIC_ERROR_FILE", "/elsewhere/error.json"},
                                     {"OMP_NUM_THREADS", "8"},
                                     {"NCCL_HOSTID", "mine"},
                                     {"GLOO_ENABLE_STORE_V2_API", "0"},
                                     {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};
  const environment_map worker = worker_environment({}, second_node(), 0, inherited);
  CHECK(worker.at("RANK") == "2");
  CHECK(worker.at("PATH") == "/bin");
  CHECK(worker.at("TORCHELASTIC_ERROR_FILE").empty());
  CHECK(worker.at("OMP_NUM_THREADS") == "8");
  CHECK(worker.at("NCCL_HOSTID") == "mine");
  CHECK(worker.at("GLOO_ENABLE_STORE_V2_API") == "0");
  CHECK(worker.at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("a worker gets the NCCL ids of its round, and never those of another") {
  const environment_map inherited = {{"DDPRUN_NCCL_IDS", "0a"}, {"DDPRUN_NCCL_VERSION", "21903"}};
  ddprun::launcher::worker_round round = second_node();
  SECTION("none were made") {
    const environment_map worker = worker_environment({}, round, 0, inherited);
    CHECK_FALSE(worker.contains("DDPRUN_NCCL_IDS"));
    CHECK_FALSE(worker.contains("DDPRUN_NCCL_VERSION"));
  }
  SECTION("a few") {
    round.nccl = {{"0cc4", "0cc5"}, 2, 23007};
    const environment_map worker = worker_environment({}, round, 0, inherited);
    CHECK(worker.at("DDPRUN_NCCL_IDS") == "0cc4,0cc5");
    CHECK(worker.at("DDPRUN_NCCL_VERSION") == "23007");
  }
  SECTION("more than a place has room for") {
    round.nccl = {{"0cc4", "0cc5"}, 9, 23007};
    CHECK(worker_environment({}, round, 0, inherited).at("DDPRUN_NCCL_IDS") ==
          "store:ddprun/nccl_ids");
  }
}

TEST_CASE("OMP_NUM_THREADS is chosen, and said, for several workers only") {
  CHECK(ddprun::launcher::thread_count_note(1, {}).empty());
  CHECK(ddprun::launcher::thread_count_note(2, {{"OMP_NUM_THREADS", "4"}}).empty());
  CHECK(ddprun::launcher::thread_count_note(2, {}).starts_with(
      "OMP_NUM_THREADS is not set: 2 workers"));
  ddprun::launcher::worker_round alone = second_node();
  alone.worker_count = 1;
  CHECK_FALSE(worker_environment({}, alone, 0, {}).contains("OMP_NUM_THREADS"));
}

TEST_CASE("the worker store takes the agent's place when asked for") {
  ddprun::launcher::launch_options options;
  options.settings.store = ddprun::store_mode::worker;
  CHECK(worker_environment(options, second_node(), 0, {}).at("TORCHELASTIC_USE_AGENT_STORE") ==
        "False");
}

TEST_CASE("scripts are run by Python without buffering") {
  CHECK(command({"-x"}) == std::vector<std::string>{"python3", "-u", "train.py", "-x"});

  ddprun::launcher::launch_options options;
  options.python = "/venv/bin/python";
  options.program = "package.train";
  options.module = true;
  CHECK(worker_command_line(options, second_node(), 0) ==
        std::vector<std::string>{"/venv/bin/python", "-u", "-m", "package.train"});
  options.module = false;
  options.no_python = true;
  options.program = "./train";
  CHECK(worker_command_line(options, second_node(), 0) == std::vector<std::string>{"./train"});
}

TEST_CASE("placeholders in arguments are filled in") {
  struct expectation {
    const char* argument;
    const char* result;
  };
  const expectation cases[] = {
      {"{rank}", "3"},
      {"{local_rank}", "1"},
      {"{group_rank}", "1"},
      {"{world_size}", "5"},
      {"{nnodes}", "2"},
      {"{master_addr}:{master_port}", "10.0.0.1:29501"},
      {"--url={master_url}", "--url=tcp://10.0.0.1:29501"},
      {"{free_port}", "4321"},
      {"rank-{rank}-of-{world_size}.txt", "rank-3-of-5.txt"},
      {"--local-rank=${local_rank}", "--local-rank=1"},
      {"$local_rank", "1"},
      {"$local_ranks ${rank} $x $", "$local_ranks ${rank} $x $"},
      {"$$ $${local_rank}", "$ ${local_rank}"},
      {"$${rank} $$local_rank", "${rank} $local_rank"},
      {"{{rank}}", "{rank}"},
      {"{{{rank}}} {{{{rank}}}}", "{3} {{rank}}"},
      {"{{rank} {rank}}", "{3 3}"},
      {"{{other}} }}{{ {rank }} {{rank", "{{other}} }}{{ {rank }} {{rank"},
      // Syntax of Hydra and OmegaConf, Jinja, GitHub's workflows, JSON.
      {"out=${hydra:runtime.cwd}/${rank}/{rank}", "out=${hydra:runtime.cwd}/${rank}/3"},
      {"${oc.env:RANK} ${world_size} ${nnodes}", "${oc.env:RANK} ${world_size} ${nnodes}"},
      {"{{ rank }} {% rank %} ${{rank}}", "{{ rank }} {% rank %} ${{rank}}"},
      {"{\"a\":{\"b\":{rank}},\"c\":{}}", "{\"a\":{\"b\":3},\"c\":{}}"},
      {"{} {other} {rank", "{} {other} {rank"},
      {"{\"rank\": 1}", "{\"rank\": 1}"},
      {"", ""},
  };
  for (const expectation& expected : cases) {
    INFO(expected.argument);
    CHECK(filled(expected.argument) == expected.result);
  }
}

TEST_CASE("as torchrun has it only the local rank is replaced, in the script's name too") {
  ddprun::launcher::launch_options options;
  options.placeholders = ddprun::launcher::placeholder_mode::torchrun;
  options.program = "train-${local_rank}-{rank}.py";
  options.arguments = {"{rank} {{rank}} $${rank} ${local_rank}", "{free_port}"};
  CHECK(worker_command_line(options, second_node(), 1) ==
        std::vector<std::string>{"python3", "-u", "train-1-{rank}.py", "{rank} {{rank}} ${rank} 1",
                                 "{free_port}"});
  CHECK_FALSE(wants_free_port(options));
}

TEST_CASE("an IPv6 master is bracketed in its url only") {
  ddprun::launcher::worker_round round = second_node();
  round.assignment.master_address = "fd00::1";
  ddprun::launcher::launch_options options;
  options.no_python = true;
  options.program = "p";
  options.arguments = {"{master_url}", "{master_addr}"};
  CHECK(worker_command_line(options, round, 0) ==
        std::vector<std::string>{"p", "tcp://[fd00::1]:29501", "fd00::1"});
}

TEST_CASE("a free port is wanted only where an argument names it") {
  ddprun::launcher::launch_options options;
  options.arguments = {"--port", "{port}"};
  CHECK_FALSE(wants_free_port(options));
  options.arguments.emplace_back("--port={free_port}");
  CHECK(wants_free_port(options));
}

TEST_CASE("an environment goes to a map and back") {
  const char* const entries[] = {"B=2=x", "A=1", "B=3", "odd", "=C:=x", nullptr};
  const environment_map variables = ddprun::environment_from(entries);
  CHECK(variables == environment_map{{"A", "1"}, {"B", "2=x"}});
  CHECK(ddprun::to_entries(variables) == std::vector<std::string>{"A=1", "B=2=x"});
}

TEST_CASE("a script is run by runpy, or given its local rank, where that is asked for") {
  ddprun::launcher::launch_options options;
  options.program = "/data/train.py";
  options.arguments = {"--epochs", "3"};
  options.python = "python";
  const auto command = [&] { return worker_command_line(options, second_node(), 1); };
  using words = std::vector<std::string>;
  options.pass_local_rank = true;
  CHECK(command() == words{"python", "-u", "/data/train.py", "--local-rank=1", "--epochs", "3"});
  options.pass_local_rank = false;
  options.run_path = options.no_python = true;
  CHECK(command() == words{"python", "-u", "-c",
                           "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], "
                           "run_name=\"__main__\")",
                           "/data/train.py", "--epochs", "3"});
}

TEST_CASE("the variables of a rank are those that another worker or round has otherwise") {
  ddprun::launcher::launch_options options;
  const auto names = [&](const environment_map& inherited) {
    const auto list = rank_variables(options, 2, inherited);
    return std::set<std::string>(list.begin(), list.end());
  };
  const std::set<std::string> usual = {"RANK",
                                       "LOCAL_RANK",
                                       "GROUP_RANK",
                                       "ROLE_RANK",
                                       "WORLD_SIZE",
                                       "GROUP_WORLD_SIZE",
                                       "ROLE_WORLD_SIZE",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "TORCHELASTIC_RESTART_COUNT",
                                       "TORCHELASTIC_ERROR_FILE",
                                       "DDPRUN_INSTANCE",
                                       "DDPRUN_ROUND",
                                       "DDPRUN_NCCL_IDS",
                                       "DDPRUN_NCCL_VERSION",
                                       "DDPRUN_PROGRESS",
                                       "DDPRUN_STOP",
                                       "DDPRUN_VAULT",
                                       "GLOO_SOCKET_IFNAME"};
  CHECK(names({{"HOME", "/root"}}) == usual);
  auto chosen = usual;
  chosen.erase("GLOO_SOCKET_IFNAME");
  CHECK(names({{"GLOO_SOCKET_IFNAME", "eth0"}}) == chosen);
  options.virtual_local_rank = true;
  auto with_gpu = usual;
  with_gpu.insert("CUDA_VISIBLE_DEVICES");
  with_gpu.erase("LOCAL_RANK");  // always 0
  CHECK(names({{"CUDA_VISIBLE_DEVICES", "4,5"}}) == with_gpu);
}
