#include "launcher/hosts/ssh/plan.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>

using namespace ddprun;
using namespace ddprun::launcher::ssh;

namespace {

using strings = std::vector<std::string>;

cli::parsed<std::string> read_sample(const std::string& path) {
  if (path == "hosts") return {boost::system::in_place_value, "a slots=2\nb slots=2\n"};
  return cli::usage_error{"cannot read " + path};
}

head_plan planned(const strings& words, const environment_map& environment = {}) {
  auto plan = plan_head(words, environment, read_sample);
  REQUIRE(plan.has_value());
  REQUIRE(plan->has_value());
  return **std::move(plan);
}

std::string refused_line(const strings& words) {
  const auto plan = plan_head(words, {}, read_sample);
  return plan ? "" : plan.error().text;
}

const agent_place at_head = {"10.0.0.1:40000", "run1", true, false, false};

}  // namespace

TEST_CASE("each host's agent gets the line that was typed, and what the head knows") {
  const head_plan plan = planned({"-H", "a:4,b:2", "--max-restarts", "3", "-p", "2222", "-x", "A=1",
                                  "--report=r.json", "-m", "train", "--lr", "-H"});
  CHECK(agent_words(plan, 1, at_head) ==
        strings{"--max-restarts=3", "--module", "--drain-exit-code=143", "--nnodes=2",
                "--nproc-per-node=2", "--rdzv-endpoint=10.0.0.1:40000", "--rdzv-id=run1",
                "--embed-daemon=never", "--node-id=b", "--node-rank=1", "--shutdown-timeout=30",
                "--log-format=json", "--color=never", "--", "train", "--lr", "-H"});
  agent_place reporting = at_head;
  reporting.reports = true;
  const strings first = agent_words(plan, 0, reporting);
  CHECK(std::count(first.begin(), first.end(), "--report=r.json") == 1);
  CHECK(plan.variables.at("A") == "1");
  CHECK(plan.launch.settings.nodes_max == 2);
}

TEST_CASE("a number of workers for all hosts, where the list has none") {
  const strings words =
      agent_words(planned({"-H", "a,b", "--nproc-per-node=gpu", "x"}), 0, at_head);
  CHECK(std::count(words.begin(), words.end(), "--nproc-per-node=gpu") == 1);
  CHECK(std::count(words.begin(), words.end(), "--nproc-per-node=1") == 0);
  CHECK(refused_line({"-H", "a,b:2", "--nproc-per-node=4", "x"}) ==
        "--nproc-per-node=4: the list says 2 workers of b; leave one of the two out");
}

TEST_CASE("what a drained agent ends with is the person's word, else not 0") {
  CHECK(planned({"-H", "a,b", "x"}).launch.drain_exit_code == 143);
  const head_plan plan = planned({"-H", "a,b", "--drain-exit-code=5", "x"});
  CHECK(plan.launch.drain_exit_code == 5);
  const strings words = agent_words(plan, 0, at_head);
  CHECK(std::count(words.begin(), words.end(), "--drain-exit-code=143") == 0);
}

TEST_CASE("workers everywhere have the grace for which the head waits") {
  const auto of_all = [](const head_plan& plan) {
    const strings words = agent_words(plan, 1, at_head);
    return *std::find_if(words.rbegin(), words.rend(), [](const std::string& word) {
      return word.starts_with("--shutdown-timeout=");
    });
  };
  CHECK(of_all(planned({"-H", "a,b", "--shutdown-timeout", "2.5", "x"})) ==
        "--shutdown-timeout=2.5");
  CHECK(of_all(planned({"-H", "a,b", "--rdzv-conf=drain_grace=7", "x"})) == "--shutdown-timeout=7");
  CHECK(of_all(planned({"-H", "a,b", "x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "90"}})) ==
        "--shutdown-timeout=90");
  CHECK(of_all(planned({"-H", "a,b", "-x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=9", "x"})) ==
        "--shutdown-timeout=9");
}

TEST_CASE("defaults of the environment count for all hosts") {
  const head_plan plan = planned({"-H", "a,b", "x"}, {{"PET_MAX_RESTARTS", "5"}});
  CHECK(plan.options.front() == "--max-restarts=5");
}

TEST_CASE("GPUs that a filter has chosen are their host's") {
  const strings words =
      agent_words(planned({"-H", "a:4,b:4", "--include=a@b:1,3", "x"}), 1, at_head);
  CHECK(std::count(words.begin(), words.end(), "--gpus=1,3") == 1);
  CHECK(std::count(words.begin(), words.end(), "--nproc-per-node=2") == 1);
}

TEST_CASE("so many workers in all are those of the first hosts") {
  const head_plan plan = planned({"-np", "3", "-H", "a:2,b:2,c:2", "x"});
  REQUIRE(plan.hosts.size() == 2);
  CHECK(plan.hosts[1].slots == 1);
  CHECK(plan.launch.settings.nodes_max == 2);
  CHECK(planned({"--num-proc=2", "-H", "a,b", "x"}).hosts.size() == 2);
  CHECK(planned({"--num-proc=2", "-H", "a:4,b:4", "--include=a:1,2,3", "x"}).hosts[0].gpus ==
        std::vector<std::uint32_t>{1, 2});
  CHECK(refused_line({"-np", "5", "-H", "a:2,b:2", "x"}) ==
        "--num-proc=5: the list has 4 workers; give the hosts more, as in -H a:4,b:4");
}

TEST_CASE("hosts that come and go have no place in a list") {
  head_plan plan =
      planned({"--host-discovery", "./hosts", "--nnodes=1:4", "--nproc-per-node=2", "x"});
  CHECK(plan.discovery == "./hosts");
  CHECK(plan.hosts.empty());
  plan.hosts = {{"a", "", 1, false, {}}, {"b", "", 3, true, {}}};
  const strings first = agent_words(plan, 0, at_head);
  CHECK(std::count(first.begin(), first.end(), "--nnodes=1:4") == 1);
  CHECK(std::count(first.begin(), first.end(), "--node-rank=0") == 0);
  CHECK(std::count(first.begin(), first.end(), "--nproc-per-node=1") == 0);
  const strings second = agent_words(plan, 1, at_head);
  const auto common = std::find(second.begin(), second.end(), "--nproc-per-node=2");
  const auto own = std::find(second.begin(), second.end(), "--nproc-per-node=3");
  CHECK(common < own);  // the last one counts
  CHECK(own != second.end());
}

TEST_CASE("ssh asks no questions, notices a cut in seconds, and the person's options win") {
  const head_plan plan = planned(
      {"-H", "a,me@b", "--ssh-args", "-i 'my key' -J gate", "-p", "22", "--ssh-user=u", "x"});
  CHECK(ssh_words(plan, 0, "command", 15) == strings{"ssh",
                                                     "-i",
                                                     "my key",
                                                     "-J",
                                                     "gate",
                                                     "-o",
                                                     "BatchMode=yes",
                                                     "-o",
                                                     "ServerAliveInterval=5",
                                                     "-o",
                                                     "ServerAliveCountMax=3",
                                                     "-o",
                                                     "RequestTTY=no",
                                                     "-o",
                                                     "RemoteCommand=none",
                                                     "-o",
                                                     "ControlMaster=no",
                                                     "-o",
                                                     "ConnectTimeout=15",
                                                     "-T",
                                                     "-x",
                                                     "-p",
                                                     "22",
                                                     "-l",
                                                     "u",
                                                     "--",
                                                     "a",
                                                     "command"});
  const strings other = ssh_words(plan, 1, "command", 0);
  CHECK(std::count(other.begin(), other.end(), "me") == 1);
  CHECK(std::count(other.begin(), other.end(), "ConnectTimeout=1") == 1);
}

TEST_CASE("a line without hosts is no head's, and their options alone are a mistake") {
  CHECK_FALSE(*plan_head({"--nnodes=2", "train.py", "-H", "a"}, {}, read_sample));
  CHECK_FALSE(*plan_head({"-H", "a", "--help"}, {}, read_sample));
  CHECK(refused_line({"--ssh-port=22", "x"}) ==
        "--ssh-port=22: that is for several hosts; add -H HOST,... or --hostfile FILE");
}

TEST_CASE("what contradicts a list of hosts is refused before any is spoken to") {
  CHECK(
      refused_line({"-H", "a,b", "--node-rank=1", "x"}) ==
      "--node-rank=1: that is for one node, and -H=a,b starts several from here; leave one of the "
      "two out");
  CHECK(refused_line({"-H", "a", "--hostfile=hosts", "x"}) ==
        "-H=a and --hostfile=hosts both name hosts; leave one out");
  CHECK(refused_line({"--hostfile=other", "x"}) == "--hostfile=other: cannot read other");
  CHECK(refused_line({"-H", "a,b", "--nnodes=1", "x"}) ==
        "--nnodes=1: the list has 2 hosts, which is too many; --spares N lets some wait");
  CHECK(refused_line({"-H", "a,b", "--nnodes=3:4", "x"}) == "--nnodes=3:4: the list has 2 hosts");
  CHECK(refused_line({"-H", "a,b", "--rdzv-backend=static", "x"}) ==
        "--rdzv-backend=static: with -H=a,b nodes meet at a daemon; leave it out");
  CHECK(refused_line({"-H", "a,b"}).starts_with("no script given"));
  CHECK(refused_line({"-H", "a", "--remote-ddprun=bin/ddprun", "x"}) ==
        "--remote-ddprun=bin/ddprun: write the whole path, from / on");
  CHECK(refused_line({"-H", "a", "--ssh-args=-i 'key", "x"}) ==
        "--ssh-args=-i 'key: a quote is not closed: '");
}

TEST_CASE("hosts beyond the most that the run has are its spares") {
  CHECK(planned({"-H", "a,b,c", "--nnodes=1:2", "--spares=1", "x"}).hosts.size() == 3);
}
