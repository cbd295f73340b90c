#include "launcher/base/kernel_log.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fstream>
#include <string>

using namespace ddprun::launcher;

TEST_CASE("the kernel's log is read from where it was when the reader was made") {
  const ddprun::tests::temporary_folder folder;
  const std::string file = folder.path + "/kmsg";
  std::ofstream written(file);
  written << "6,1,1000,-;before\n" << std::flush;
  kernel_log log(file);
  CHECK(log.is_readable());
  CHECK_FALSE(log.next());
  written << "6,2,2000,-;first; with a semicolon\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"
          << "4,3,3000,-;second\n4,4,4000,-;not yet" << std::flush;
  CHECK(log.next() == "first; with a semicolon");
  CHECK(log.next() == "second");
  CHECK_FALSE(log.next());
  written << " whole\n" << std::flush;
  CHECK(log.next() == "not yet whole");
  written << "6,5,5000,-;left out\n6,6,6000,-;too\n" << std::flush;
  log.skip();
  CHECK_FALSE(log.next());
}

TEST_CASE("what is no record of the kernel's log is left out") {
  const ddprun::tests::temporary_folder folder;
  const std::string file = folder.path + "/kmsg";
  std::ofstream written(file);
  kernel_log log(file);
  written << "\nno record\n" << std::string(100'000, 'x') << "\n6,1,2,-;a record\n" << std::flush;
  CHECK(log.next() == "a record");
  CHECK_FALSE(log.next());
  kernel_log none(folder.path + "/none");
  CHECK_FALSE(none.is_readable());
  none.skip();
  CHECK_FALSE(none.next());
}
