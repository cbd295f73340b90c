// Saves a state of many GiB that is nearly all zeros, as one rank, on a file system that stores
// zeros as holes; then reads it back and prints how much memory that took.
//
//   sparse_snapshot FOLDER GIB
//
// Each tensor is one GiB, of which only the first and the last bytes are not zero. Prints "GIB GiB
// written and read; at most MIB MiB of memory, MIB MiB on the disk".
#include "tests/worker/snapshot/hooked_disk.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace ddprun;
using namespace ddprun::worker;

constexpr std::size_t gibibyte = std::size_t{1} << 30;
constexpr std::size_t block = 4096;

class file_of_holes final : public output_file {
 public:
  explicit file_of_holes(int number) : number_(number) {}
  ~file_of_holes() override {
    if (number_ >= 0) ::close(number_);
  }
  error_code write(std::string_view bytes) override {
    static const char zeros[block] = {};
    for (std::size_t at = 0; at < bytes.size();) {
      const auto part = bytes.substr(at, block - (size_ + at) % block);
      if (std::memcmp(part.data(), zeros, part.size()) != 0 &&
          ::pwrite(number_, part.data(), part.size(), static_cast<off_t>(size_ + at)) !=
              static_cast<ssize_t>(part.size())) {
        return last_system_error();
      }
      at += part.size();
    }
    size_ += bytes.size();
    return {};
  }
  error_code finish() override {
    if (::ftruncate(number_, static_cast<off_t>(size_)) != 0) return last_system_error();
    if (::fsync(number_) != 0) return last_system_error();
    return {};
  }

 private:
  int number_;
  std::size_t size_ = 0;
};

class disk_of_holes final : public tests::hooked_disk {
 public:
  result<std::unique_ptr<output_file>> create(const std::string& path) override {
    const int number = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (number < 0) return last_system_error();
    return std::unique_ptr<output_file>(std::make_unique<file_of_holes>(number));
  }
};

// Memory that is allocated only when it is written to.
char* sparse_memory(std::size_t bytes) {
  void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) throw std::runtime_error(last_system_error().message());
  (void)::madvise(made, bytes, MADV_NOHUGEPAGE);  // so that one byte does not take 2 MiB
  return static_cast<char*>(made);
}

std::string edge_of(std::size_t number) {
  return "tensor " + std::to_string(number);
}

std::unique_ptr<snapshots> open(const std::string& folder, file_system& disk) {
  snapshots_options options;
  options.folder = folder;
  options.is_asynchronous = false;
  options.files = &disk;
  std::string problem;
  auto opened = snapshots::open(environment(), options, problem);
  if (!opened) throw std::runtime_error(problem);
  return std::move(*opened);
}

void write(const std::string& folder, file_system& disk, std::size_t count) {
  char* const memory = sparse_memory(count * gibibyte);
  snapshot_state state;
  for (std::size_t number = 0; number < count; ++number) {
    tensor_view tensor;
    tensor.name = "model." + std::to_string(number);
    tensor.type = element_type::f32;
    tensor.shape = {gibibyte / 4};
    char* const begin = memory + number * gibibyte;
    const std::string edge = edge_of(number);
    edge.copy(begin, edge.size());
    edge.copy(begin + gibibyte - edge.size(), edge.size());
    tensor.bytes = {begin, gibibyte};
    state.replicated.tensors.push_back(tensor);
  }
  const auto kept = open(folder, disk);
  if (kept->save(10, 1, state) || kept->close()) throw std::runtime_error(kept->problem());
  ::munmap(memory, count * gibibyte);
}

void read(const std::string& folder, file_system& disk, std::size_t count) {
  const auto kept = open(folder, disk);
  const auto& found = kept->resumed();
  if (!found || found->replicated.tensors.size() != count) throw std::runtime_error("not found");
  for (std::size_t number = 0; number < count; ++number) {
    const auto* const tensor = found->replicated.find("model." + std::to_string(number));
    const std::string edge = edge_of(number);
    const bool is_right = tensor != nullptr && tensor->bytes.size() == gibibyte &&
                          tensor->bytes.starts_with(edge) && tensor->bytes.ends_with(edge) &&
                          tensor->bytes[gibibyte / 2] == 0;
    if (!is_right) throw std::runtime_error("tensor " + std::to_string(number) + " is another");
  }
}

std::size_t bytes_on_disk(const std::string& folder) {
  std::size_t bytes = 0;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat status {};
    if (::stat(each.path().c_str(), &status) == 0)
      bytes += static_cast<std::size_t>(status.st_blocks) * 512;
  }
  return bytes;
}

}  // namespace

int main(int count, char** values) {
  if (count != 3) return 2;
  try {
    const auto gibibytes = static_cast<std::size_t>(std::atoi(values[2]));
    disk_of_holes disk;
    write(values[1], disk, gibibytes);
    read(values[1], disk, gibibytes);
    struct rusage used {};
    ::getrusage(RUSAGE_SELF, &used);
    std::printf("%zu GiB written and read; at most %ld MiB of memory, %zu MiB on the disk\n",
                gibibytes, used.ru_maxrss >> 10, bytes_on_disk(values[1]) >> 20);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
