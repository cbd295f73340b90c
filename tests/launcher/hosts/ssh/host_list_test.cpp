#include "launcher/hosts/ssh/host_list.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher::ssh;

namespace {

std::string text_of(const std::vector<host>& hosts) {
  std::string text;
  for (const host& one : hosts) {
    text += (text.empty() ? "" : " ") + (one.user.empty() ? "" : one.user + "@") + one.name + "=" +
            std::to_string(one.slots) + (one.has_number ? "" : "?");
    for (const std::uint32_t gpu : one.gpus)
      text += "," + std::to_string(gpu);
  }
  return text;
}

std::string listed(const std::string& text) {
  const auto hosts = read_host_list("-H=" + text, text);
  return hosts ? text_of(*hosts) : hosts.error().text;
}

std::string filed(const std::string& text) {
  const auto hosts = read_hostfile("hosts", text);
  return hosts ? text_of(*hosts) : hosts.error().text;
}

std::string filtered(const std::string& text, bool keeps) {
  auto hosts = *read_host_list("", "a:4,b:2,c:1");
  const auto bad = filter_hosts(hosts, keeps ? "--include" : "--exclude", text, keeps);
  return bad ? bad->text : text_of(hosts);
}

}  // namespace

TEST_CASE("hosts of a command line, as horovodrun, OpenMPI and MPICH take them") {
  CHECK(listed("a:4,b:2") == "a=4 b=2");
  CHECK(listed("node1") == "node1=1?");
  CHECK(listed("10.0.0.1:1, 10.0.0.2:1") == "10.0.0.1=1 10.0.0.2=1");
  CHECK(listed("[fe80::1%eth0]:4,[::1]") == "fe80::1%eth0=4 ::1=1?");
  CHECK(listed("me@a:2,b") == "me@a=2 b=1?");
}

TEST_CASE("a host that is named twice has the workers of both") {
  CHECK(listed("a,b,a") == "a=2 b=1?");
  CHECK(listed("a:2,a:3") == "a=5");
  CHECK(filed("a\na\na\nb\n") == "a=3 b=1?");  // PBS_NODEFILE
}

TEST_CASE("what is no host is refused") {
  const std::string form = "\" is not a host; write NAME, NAME:WORKERS or [IPV6]:WORKERS";
  CHECK(listed("a,,b") == "-H=a,,b: \"" + form);
  CHECK(listed("a b") == "-H=a b: \"a b" + form);
  CHECK(listed("[::1") == "-H=[::1: \"[::1" + form);
  CHECK(listed("[::1]4") == "-H=[::1]4: \"[::1]4" + form);
  CHECK(listed("fe80::1:4") ==
        "-H=fe80::1:4: \"fe80::1:4\": an IPv6 address stands in brackets, as in [fe80::1]:4");
  CHECK(listed("a:0") == "-H=a:0: a: the number of workers is a whole number from 1 to 4096");
}

TEST_CASE("no name of a host is an option of ssh's") {
  const std::string name = "-oProxyCommand=true";
  CHECK(read_host_list("-H", name).has_error());
  CHECK(read_host_list("-H", "-l@host").has_error());
  CHECK(read_hostfile("hosts", name).has_error());
}

TEST_CASE("a hostfile of OpenMPI, DeepSpeed or hydra") {
  CHECK(filed("# two nodes\na slots=4 max_slots=8\n\n  b slots=2 # the small one\r\n") ==
        "a=4 b=2");
  CHECK(filed("a max-slots=8") == "a=1?");
  CHECK(filed("a:4\nb:4") == "a=4 b=4");
}

TEST_CASE("the line of a mistake in a hostfile is named") {
  CHECK(filed("a slots=4\n\nb slot=4\n") ==
        "hosts:3: \"slot=4\" is not understood; write NAME slots=WORKERS, or NAME:WORKERS");
  CHECK(filed("a slots=four") ==
        "hosts:1: slots: the number of workers is a whole number from 1 to 4096");
  CHECK(filed("a 4").starts_with("hosts:1: \"4\" is not understood"));
  CHECK(filed("# nothing\n\n") == "hosts: no host is in it");
}

TEST_CASE("DeepSpeed's filters choose hosts and GPUs") {
  CHECK(filtered("c@a", true) == "c=1 a=4");
  CHECK(filtered("b@a:0,2", true) == "b=2 a=2,0,2");
  CHECK(filtered("b", false) == "a=4 c=1");
  CHECK(filtered("a:1@c", false) == "a=3,0,2,3 b=2");
  CHECK(filtered("b:0,1", false) == "a=4 c=1");
}

TEST_CASE("a filter that cannot be meant is refused") {
  CHECK(filtered("d", true) == "--include: \"d\" is not in the host list, or is repeated");
  CHECK(filtered("a@a", true) == "--include: \"a\" is not in the host list, or is repeated");
  CHECK(filtered("b:2", true) == "--include: the number of GPU of b is a whole number from 0 to 1");
  CHECK(filtered("a@b@c", false) == "--exclude: no host is left");
}
