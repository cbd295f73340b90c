// A worker that reads the launcher's NCCL ids, from wherever they are, and prints them. It does not
// link NCCL; its argument is the version to pretend, as in "nccl_ids_reader 23007".
#include "worker/nccl_id.hpp"
#include "worker/nccl_ids.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int count, char** words) {
  using namespace ddprun::worker;
  try {
    const auto version =
        static_cast<std::uint32_t>(count > 1 ? std::strtoul(words[1], nullptr, 10) : 0);
    const auto ids = read_nccl_ids(read_environment(), std::chrono::seconds(60), version);
    for (const auto& id : ids)
      std::printf("id %s\n", nccl_id_text(id).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_ids_reader: %s\n", error.what());
    return 1;
  }
}
