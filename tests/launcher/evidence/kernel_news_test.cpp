#include "launcher/evidence/kernel_news.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fstream>
#include <string>

namespace ddprun::launcher::evidence {
namespace {

constexpr pid_t faulty_process = 4711;
constexpr std::string_view fell_off =
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
constexpr std::string_view mmu_fault =
    "NVRM: Xid (PCI:0000:0a:00): 31, pid=4711, name=python, Ch 00000010, intr 00000000. MMU Fault";

// A file that stands for the kernel's log.
struct written_log {
  written_log() { std::ofstream{file}; }
  void say(std::string_view text) const {
    std::ofstream(file, std::ios::app) << "4,1234,5678,-;" << text << "\n SUBSYSTEM=pci\n";
  }

  tests::temporary_folder folder;
  std::string file = folder.path + "/kmsg";
};

}  // namespace

TEST_CASE("a line of the kernel's log tells of a fault of a GPU") {
  CHECK(gpu_fault_in(fell_off) == gpu_fault{79, "0000:3b:00", std::nullopt});
  CHECK(gpu_fault_in(mmu_fault) == gpu_fault{31, "0000:0a:00", faulty_process});
  CHECK(gpu_fault_in("NVRM: Xid (PCI:0000:0a:00): 43, pid='4711', name=a") ==
        gpu_fault{43, "0000:0a:00", faulty_process});
  CHECK(gpu_fault_in("NVRM: Xid (0000:03:00): 6, PE0001") ==
        gpu_fault{6, "0000:03:00", std::nullopt});
  CHECK_FALSE(gpu_fault_in("nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30"));
  // A program of that name has crashed.
  CHECK_FALSE(gpu_fault_in(" Xid (a): 79[4711]: segfault at 0 ip 000055d0 sp 00007ffe error 4"));
  CHECK_FALSE(gpu_fault_in("NVRM: Xid (a): [4711]: segfault at 0 ip 000055d0 sp 00007ffe error 4"));
  CHECK_FALSE(gpu_fault_in("NVRM: Xid (PCI:0000:3b:00): none"));
  CHECK_FALSE(gpu_fault_in("NVRM: Xid (PCI:\x1b[2J): 79"));
  CHECK_FALSE(gpu_fault_in("NVRM: Xid (PCI:0000:3b:00"));
  CHECK_FALSE(gpu_fault_in("NVRM: Xid ("));
  CHECK_FALSE(gpu_fault_in(""));
}

TEST_CASE("a fault is the GPU's if it is not a program's") {
  const written_log log;
  kernel_news news(log.file, true);
  for (const int number : {13, 31, 43, 45})
    log.say("NVRM: Xid (PCI:0000:01:00): " + std::to_string(number) + ", pid=1, name=a");
  CHECK_FALSE(news.has_fault());
  log.say(fell_off);
  CHECK(news.has_fault());
}

TEST_CASE("of the kernel's log only what concerns this round is told") {
  const written_log log;
  log.say("NVRM: Xid (PCI:0000:01:00): 48, pid=1, name=a, of an earlier job");
  kernel_news news(log.file, true);
  CHECK(news.lines().empty());
  log.say("NVRM: Xid (PCI:0000:02:00): 48, pid=1, name=a, of an earlier round");
  CHECK(news.lines().size() == 1);
  news.begin_round();
  log.say("usb 1-1: new device");
  log.say(fell_off);
  log.say("Memory cgroup out of memory: Killed process 17 (a\x1b[2J\xff) total-vm:1kB");
  log.say("nfs: server data not responding");
  CHECK(news.lines() == std::vector<std::string>{
                            std::string(fell_off),
                            "Memory cgroup out of memory: Killed process 17 (a\ufffd) total-vm:1kB",
                            "nfs: server data not responding"});
  news.begin_round();
  CHECK(news.lines().empty());
}

TEST_CASE("of many lines of the kernel's log the first and the last are told") {
  const written_log log;
  kernel_news news(log.file, true);
  for (int number = 1; number <= 1000; ++number)
    log.say("Xid " + std::to_string(number) + std::string(5000, 'x'));
  const auto lines = news.lines();
  REQUIRE(lines.size() == 21);
  CHECK(lines.front().starts_with("Xid 1x"));
  CHECK(lines[10] == "... (980 more)");
  CHECK(lines.back().starts_with("Xid 1000x"));
  for (const std::string& line : lines)
    CHECK(line.size() <= 500);
}

TEST_CASE("a fault of a GPU explains the end of the process that it names") {
  const written_log log;
  kernel_news news(log.file, true);
  CHECK(news.fault_of(faulty_process, true).empty());
  log.say("NVRM: Xid (PCI:0000:0a:00): 45, pid=4711, name=python, Ch 00000008");
  CHECK(news.fault_of(faulty_process, true).empty());  // it only tells of the end
  log.say(mmu_fault);
  CHECK(news.fault_of(faulty_process, false) == "Xid 31 on the GPU at PCI 0000:0a:00");
  CHECK(news.fault_of(faulty_process + 1, true).empty());
  news.begin_round();
  CHECK(news.fault_of(faulty_process, true).empty());
}

TEST_CASE("a fault of which the process is not known explains the end of one that spoke of it") {
  const written_log log;
  SECTION("the kernel does not know it") {
    kernel_news news(log.file, true);
    log.say(fell_off);
    CHECK(news.fault_of(faulty_process, false).empty());
    CHECK(news.fault_of(faulty_process, true) == "Xid 79 on the GPU at PCI 0000:3b:00");
  }
  SECTION("it has another number here") {
    kernel_news news(log.file, false);
    log.say(mmu_fault);
    CHECK(news.fault_of(faulty_process, false).empty());
    CHECK(news.fault_of(1, true) == "Xid 31 on the GPU at PCI 0000:0a:00");
  }
}

TEST_CASE("where the kernel's log may not be read it says nothing") {
  kernel_news news("/nonexistent/kmsg", true);
  news.begin_round();
  CHECK(news.lines().empty());
  CHECK(news.fault_of(faulty_process, true).empty());
}

}  // namespace ddprun::launcher::evidence
