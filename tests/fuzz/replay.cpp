// Replaces libFuzzer where it is not available: it gives every file of a corpus to the target that
// it is linked with, and then random mutations of them. Each mutation is made from its seed alone,
// so that a crash can be reproduced.
//
//   fuzz_NAME [--runs N] [--seed N] [FILE or FOLDER]...
//
// Without --runs a thorough test run (tests/support/effort.hpp) takes all the usual seeds, and a
// quick one a part of them; under a sanitizer there are fewer.
//
// An input that ends the process is left in crash-fuzz_NAME in the working folder, and its seed is
// printed: `--seed N --runs 1` makes the same input again. Without paths it takes
// tests/fuzz/corpus/NAME.
#include "tests/support/effort.hpp"
#include "tests/support/source_tree.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// It exists only with a sanitizer, which ends the process without a signal.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

namespace fs = std::filesystem;
using bytes = std::string;

constexpr std::size_t input_bytes_max = 4096;

// What the process was doing, for its last message.
bytes current;
std::string current_name;
std::string crash_file;

struct seeds {
  std::uint64_t first = 1;
  std::uint64_t count = 0;
};

seeds of_this_effort() {
  using namespace ddprun::tests;
  const std::uint64_t all = is_sanitized ? 2000 : 10'000;
  const std::uint64_t few = is_sanitized ? 200 : 2000;
  if (is_thorough()) return {1, all};
  return {1 + sample_seed() % (all - few + 1), few};
}

void say_last_words() {
  const std::string text = "\nfuzz: died with " + current_name + ", left in " + crash_file + "\n";
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, text.data(), text.size());
  const int file = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  written = ::write(file, current.data(), current.size());
  ::close(file);
}

void on_signal(int number) {
  std::signal(number, SIG_DFL);
  say_last_words();
  std::raise(number);
}

void try_one(bytes input, std::string name) {
  current = std::move(input);
  current_name = std::move(name);
  // The block has exactly these bytes, so that a sanitizer notices a read beyond them.
  std::vector<std::uint8_t> block(current.begin(), current.end());
  block.shrink_to_fit();
  LLVMFuzzerTestOneInput(block.data(), block.size());
}

class mutator {
 public:
  mutator(const std::vector<bytes>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  bytes make() {
    bytes made = corpus_.empty() ? bytes() : corpus_[below(corpus_.size())];
    for (std::size_t left = 1 + below(8); left != 0; --left)
      change(made);
    made.resize(std::min(made.size(), input_bytes_max));
    return made;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  char any() { return static_cast<char>(random_()); }

  bytes number() {
    static constexpr std::array<std::uint64_t, 12> edges{0,
                                                         1,
                                                         2,
                                                         255,
                                                         8192,
                                                         8193,
                                                         131073,
                                                         std::uint64_t{1} << 31,
                                                         std::uint64_t{1} << 32,
                                                         ~std::uint64_t{0} >> 1,
                                                         std::uint64_t{1} << 63,
                                                         ~std::uint64_t{0}};
    const std::uint64_t value = edges[below(edges.size())];
    bytes text(sizeof value, '\0');
    std::memcpy(text.data(), &value, sizeof value);
    return text;
  }

  void change(bytes& made) {
    const std::size_t at = below(made.size() + 1);
    const std::size_t some = below(std::min<std::size_t>(made.size() - at, 64) + 1);
    switch (below(7)) {
      case 0:
        if (at < made.size()) made[at] = static_cast<char>(made[at] ^ (1 << below(8)));
        return;
      case 1:
        if (at < made.size()) made[at] = any();
        return;
      case 2:
        made.insert(at, bytes(1 + below(4), any()));
        return;
      case 3:
        made.erase(at, some);
        return;
      case 4:
        made.insert(below(made.size() + 1), made.substr(at, some));
        return;
      case 5:
        made.replace(at, below(2) * std::min<std::size_t>(8, made.size() - at), number());
        return;
      default: {  // a part of another
        const bytes& other = corpus_.empty() ? made : corpus_[below(corpus_.size())];
        const std::size_t from = below(other.size() + 1);
        made.insert(at, other.substr(from, below(256)));
      }
    }
  }

  const std::vector<bytes>& corpus_;
  std::mt19937_64 random_;
};

bytes read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The files in the order of their names, independent of the file system.
std::vector<fs::path> files_of(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<std::uint64_t> wanted;
  std::optional<std::uint64_t> seed;
  std::vector<fs::path> paths;
  for (int index = 1; index < argc; ++index) {
    const std::string word = argv[index];
    if (word == "--runs" && index + 1 < argc) {
      wanted = std::strtoull(argv[++index], nullptr, 10);
    } else if (word == "--seed" && index + 1 < argc) {
      seed = std::strtoull(argv[++index], nullptr, 10);
    } else {
      paths.emplace_back(word);
    }
  }
  std::uint64_t runs = wanted.value_or(0);
  try {
    if (!wanted) {
      const seeds usual = of_this_effort();
      runs = usual.count;
      if (!seed) seed = usual.first;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  const std::string program = fs::path(argv[0]).filename().string();
  const std::string target = program.substr(program.find('_') + 1);
  if (paths.empty()) paths.push_back(ddprun::tests::source_tree() / "tests/fuzz/corpus" / target);
  crash_file = "crash-" + program;
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(number, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_last_words);

  std::vector<bytes> corpus;
  for (const fs::path& file : files_of(paths)) {
    corpus.push_back(read(file));
    try_one(corpus.back(), file.string());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no inputs in %s\n", argv[0], paths.front().c_str());
    return 1;
  }
  const std::uint64_t first = seed.value_or(1);
  for (std::uint64_t run = 0; run < runs; ++run) {
    try_one(mutator(corpus, first + run).make(),
            "the input of --seed " + std::to_string(first + run));
  }
  std::printf("%zu inputs and %llu mutations of them, from seed %llu\n", corpus.size(),
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(first));
}
