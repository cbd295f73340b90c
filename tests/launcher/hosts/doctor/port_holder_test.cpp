#include "launcher/hosts/doctor/port_holder.hpp"

#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;
namespace fs = std::filesystem;

namespace {

// 29400 is 72D8. 4711 listens on it; 4712 on another port, and 4713 is a connection to it.
const std::string tcp_table =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:72D8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
    "4711 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0100007F:72D9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
    "4712 1 0000000000000000 100 0 0 10 0\n"
    "   2: 0100007F:72D8 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "4713 1 0000000000000000 20 4 30 10 -1";

void put_process(const fake_node& node, const std::string& pid, const std::string& program,
                 const std::string& socket) {
  const fs::path process = node.root() / "proc" / pid;
  fs::create_directories(process / "fd");
  fs::create_symlink("/usr/bin/" + program, process / "exe");
  fs::create_symlink("/dev/null", process / "fd/0");
  fs::create_symlink("socket:[" + socket + "]", process / "fd/3");
}

}  // namespace

TEST_CASE("the process that listens on a port is found by its socket") {
  const fake_node node;
  node.write("proc/net/tcp", tcp_table);
  put_process(node, "10", "python3.11", "4712");
  put_process(node, "11", "nc.openbsd", "4713");
  CHECK_FALSE(find_port_holder(node.root(), 29400));
  put_process(node, "12", "nc.openbsd", "4711");
  const auto found = find_port_holder(node.root(), 29400);
  REQUIRE(found);
  CHECK(found->pid == 12);
  CHECK(found->program == "nc.openbsd");
  CHECK_FALSE(is_own_program(*found));
  CHECK_FALSE(find_port_holder(node.root(), 29402));
}

TEST_CASE("a port of IPv6 is found too, and of those that share it our program") {
  const fake_node node;
  node.write("proc/net/tcp6",
             "   0: 00000000000000000000000000000000:72D8 00000000000000000000000000000000:0000 0A "
             "00000000:00000000 00:00000000 00000000     0        0 815 1 0000000000000000 100");
  put_process(node, "1", "systemd", "815");
  CHECK(find_port_holder(node.root(), 29400)->program == "systemd");
  put_process(node, "99", "ddprun-rendezvous", "815");
  CHECK(find_port_holder(node.root(), 29400)->pid == 99);
  CHECK(is_own_program(*find_port_holder(node.root(), 29400)));
}
