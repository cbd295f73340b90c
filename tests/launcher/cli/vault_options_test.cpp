// The options of the vault.
#include "launcher/cli/vault_rows.hpp"
#include "tests/launcher/cli/parsed_options.hpp"

#include <string>

using ddprun::tests::options_of;
using ddprun::tests::usage_error_of;

TEST_CASE("the options of the vault are read") {
  CHECK(options_of("a.py").vault.disk.empty());
  const auto plain = options_of("--vault kept a.py").vault;
  CHECK(plain.disk == "kept");
  CHECK(plain.memory == "/dev/shm");
  CHECK(plain.size == 0);
  CHECK(plain.rate == 200 << 20);
  const auto given = options_of(
                         "--vault=/data/kept --vault-size 8G --vault-rate=512K "
                         "--vault-memory /mnt/ram a.py")
                         .vault;
  CHECK(given.size == std::uint64_t{8} << 30);
  CHECK(given.rate == 512 << 10);
  CHECK(given.memory == "/mnt/ram");
  CHECK(options_of("--vault-rate 0 a.py").vault.rate == 0);
  CHECK(options_of("--vault-port 29555 a.py").vault.port == 29555);
  for (const char* same : {"3GiB", "3GB", "3G", "3072", "3072M", "3145728K"})
    CHECK(options_of("--vault-size " + std::string(same) + " a.py").vault.size == std::uint64_t{3}
                                                                                      << 30);
}

TEST_CASE("options of the vault that cannot be read are named") {
  for (const char* wrong : {"", "8X", "-1", "1.5G", "G", "99999999999999T", "8 G"})
    CHECK(ddprun::launcher::read_size(wrong) == std::nullopt);
  CHECK(usage_error_of("--vault-size=much a.py") == "--vault-size=much: write a size: 512M, 8G");
  CHECK(usage_error_of("--vault-size=0 a.py") == "--vault-size=0: write a size above 0");
  CHECK(usage_error_of("--vault-port=70000 a.py").starts_with("--vault-port=70000"));
  CHECK(usage_error_of("--vault= a.py") == "--vault=: write the folder that copies go to");
  CHECK(usage_error_of("--vault-memory=ram a.py") ==
        "--vault-memory=ram: write a whole path: /dev/shm");
}
