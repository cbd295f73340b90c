#include "launcher/node/numa_binding.hpp"

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// A machine in a folder, with files as the kernel and the driver write them.
class machine {
 public:
  machine() {
    std::string name = (std::filesystem::temp_directory_path() / "ddprun-numa-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~machine() { std::filesystem::remove_all(root_); }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void node(int number, const std::string& processors) {
    write("sys/devices/system/node/node" + std::to_string(number) + "/cpulist", processors);
  }
  void processor(int number, int socket, const std::string& core, const std::string& cache) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(number) + "/";
    write(folder + "topology/physical_package_id", std::to_string(socket));
    write(folder + "topology/thread_siblings_list", core);
    const auto index = [&](int place, const char* type, int level, const std::string& shared) {
      const std::string at = folder + "cache/index" + std::to_string(place) + "/";
      write(at + "type", type);
      write(at + "level", std::to_string(level));
      write(at + "shared_cpu_list", shared);
    };
    index(0, "Data", 1, core);
    index(1, "Unified", 3, cache);
    index(2, "Instruction", 4, "0-1000");
    index(3, "Unified", 2, core);
  }
  void gpu(const std::string& address, int node, const std::string& uuid) {
    write("proc/driver/nvidia/gpus/" + address + "/information",
          "Model: \t\t NVIDIA\nGPU UUID: \t " + uuid + "\nDevice Minor: \t 0");
    write("sys/bus/pci/devices/" + address + "/numa_node", std::to_string(node));
  }

  numa_topology read(const std::string& allowed, const environment_map& environment = {}) const {
    return read_numa_topology(root_.string(), read_number_list(allowed), environment);
  }

 private:
  std::filesystem::path root_;
};

// Two sockets with two nodes each, of four cores with two threads and two caches: CPUs 0-15 are the
// first threads, 16-31 the second ones. Of the four GPUs, node 3 has two.
void make_server(machine& made) {
  for (int node = 0; node < 4; ++node) {
    const int first = 4 * node;
    made.node(node, std::to_string(first) + "-" + std::to_string(first + 3) + "," +
                        std::to_string(first + 16) + "-" + std::to_string(first + 19));
  }
  for (int number = 0; number < 32; ++number) {
    const int core = number % 16;
    const int pair = core / 2 * 2;
    made.processor(number, core / 8, std::to_string(core) + "," + std::to_string(core + 16),
                   std::to_string(pair) + "-" + std::to_string(pair + 1) + "," +
                       std::to_string(pair + 16) + "-" + std::to_string(pair + 17));
  }
  made.gpu("0000:1b:00.0", 1, "GPU-aaaa");
  made.gpu("0000:43:00.0", 0, "GPU-bbbb");
  made.gpu("0000:9d:00.0", 3, "GPU-cccc");
  made.gpu("0000:c3:00.0", 3, "GPU-dddd");
}

std::string bound(numa_mode mode, std::uint32_t workers, const numa_topology& topology) {
  const auto sets = bind_workers(mode, workers, topology);
  if (!sets) return sets.error().text;
  std::string text;
  for (const auto& set : *sets)
    text += (text.empty() ? "" : " | ") + number_list(set);
  return text;
}

}  // namespace

TEST_CASE("numbers are listed as the kernel does") {
  CHECK(read_number_list("0-2,4,6-7\n") == std::vector<int>{0, 1, 2, 4, 6, 7});
  CHECK(read_number_list("\n").empty());
  CHECK(number_list({0, 1, 2, 4, 6, 7}) == "0-2,4,6-7");
  CHECK(number_list({5}) == "5");
  CHECK(number_list({}).empty());
}

TEST_CASE("a machine is read as it is") {
  machine made;
  make_server(made);
  const numa_topology all = made.read("0-31");
  REQUIRE(all.nodes.size() == 4);
  CHECK(all.gpus == std::vector<int>{1, 0, 3, 3});
  const auto& last = all.nodes.at(3).back();
  CHECK(last.number == 31);
  CHECK(last.socket == 1);
  CHECK(last.core == 15);
  CHECK(last.cache == 14);
  CHECK(made.read("4-7").nodes.size() == 1);
}

TEST_CASE("GPUs are those that the workers see") {
  machine made;
  make_server(made);
  const auto seen = [&](const char* devices) {
    return made.read("0-31", {{"CUDA_VISIBLE_DEVICES", devices}}).gpus;
  };
  CHECK(seen("2,0") == std::vector<int>{3, 1});
  CHECK(seen("GPU-bb,3") == std::vector<int>{0, 3});
  CHECK(seen("MIG-1").empty());
  CHECK(seen("9").empty());
  CHECK(seen("").empty());
}

TEST_CASE("each worker is bound near its GPU, as torchrun does it") {
  machine made;
  make_server(made);
  const numa_topology server = made.read("0-31");
  CHECK(bound(numa_mode::off, 4, server).empty());
  CHECK(bound(numa_mode::node, 4, server) == "4-7,20-23 | 0-3,16-19 | 12-15,28-31 | 12-15,28-31");
  CHECK(bound(numa_mode::socket, 4, server) == "0-7,16-23 | 0-7,16-23 | 8-15,24-31 | 8-15,24-31");
  CHECK(bound(numa_mode::exclusive, 4, server) ==
        "4-7,20-23 | 0-3,16-19 | 12-13,28-29 | 14-15,30-31");
  CHECK(bound(numa_mode::core_complex, 4, server) ==
        "4-5,20-21 | 0-1,16-17 | 12-13,28-29 | 14-15,30-31");
  // The node's GPUs share it, whether or not each has a worker.
  CHECK(bound(numa_mode::exclusive, 3, server) == "4-7,20-23 | 0-3,16-19 | 12-13,28-29");
}

TEST_CASE("only processors on which this process may run are given away") {
  machine made;
  make_server(made);
  const numa_topology some = made.read("0,1,13,14,15,31");
  CHECK(bound(numa_mode::node, 1, made.read("5,22")) == "5,22");
  CHECK(bound(numa_mode::exclusive, 1, some) ==
        "--numa-binding=exclusive: the GPU of local rank 0 is at NUMA node 1, but this process "
        "may not use any of its processors; check taskset and cpusets, or leave the option out");
  // Three cores for two GPUs: the first gets one more.
  const numa_topology last = made.read("13-15,31", {{"CUDA_VISIBLE_DEVICES", "2,3"}});
  CHECK(bound(numa_mode::exclusive, 2, last) == "13-14 | 15,31");
  // The cache with most CPUs comes first.
  CHECK(bound(numa_mode::core_complex, 2, last) == "14-15,31 | 13");
}

TEST_CASE("without a GPU the local ranks take the nodes in turn") {
  machine made;
  make_server(made);
  const numa_topology server = made.read("0-31", {{"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(bound(numa_mode::node, 5, server) ==
        "0-3,16-19 | 4-7,20-23 | 8-11,24-27 | 12-15,28-31 | 0-3,16-19");
  CHECK(bound(numa_mode::exclusive, 5, server) ==
        "0-1,16-17 | 4-7,20-23 | 8-11,24-27 | 12-15,28-31 | 2-3,18-19");
  const numa_topology one_node = made.read("8-9,24-25", {{"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(bound(numa_mode::exclusive, 2, one_node) == "8,24 | 9,25");
  CHECK(bound(numa_mode::exclusive, 3, one_node) ==
        "--numa-binding=exclusive: NUMA node 2 has 2 cores for 3 workers; start fewer, or write "
        "--numa-binding=node");
}

TEST_CASE("more workers than GPUs begin again with the first one") {
  machine made;
  make_server(made);
  const numa_topology two = made.read("0-31", {{"CUDA_VISIBLE_DEVICES", "0,1"}});
  CHECK(bound(numa_mode::exclusive, 3, two) == "4-5,20-21 | 0-3,16-19 | 6-7,22-23");
}

TEST_CASE("a machine that tells nothing of nodes is one") {
  const machine made;
  const numa_topology bare = made.read("0-3");
  CHECK(bound(numa_mode::node, 2, bare) == "0-3 | 0-3");
  CHECK(bound(numa_mode::exclusive, 2, bare) == "0-1 | 2-3");
}

TEST_CASE("this machine gives its workers processors") {
  const auto here = read_numa_topology("/", allowed_processors(), {});
  CHECK_FALSE(allowed_processors().empty());
  CHECK_FALSE(bound(numa_mode::node, 1, here).empty());
}
