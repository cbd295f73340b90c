#include "examples/01_snapshot_resume/arguments.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace snapshot_resume {
namespace {

constexpr const char* usage =
    "usage: snapshot_resume [EPOCHS [SNAPSHOT_INTERVAL]] [options]\n"
    "\n"
    "Trains a small convolutional network on 8x8 handwritten digits, on as many ranks as there\n"
    "are, and goes on from its newest snapshot when it is started again.\n"
    "\n"
    "  EPOCHS              epochs in all (50)\n"
    "  SNAPSHOT_INTERVAL   epochs between two snapshots (10)\n"
    "  --data FILE         the digits ($DDPRUN_DIGITS, else .cache/digits.csv)\n"
    "  --snapshot-dir DIR  where snapshots are kept; the same for all nodes (snapshots)\n"
    "  --metrics FILE      loss, accuracy and speed of each epoch, for examples/plot_metrics.py\n"
    "  --batch-size N      samples of each rank in a step (64)\n"
    "  --seed N            decides the first weights and every shuffle (0)\n";

std::uint64_t parse_number(const std::string& name, std::string_view text, std::uint64_t least) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || rest != end || value < least) {
    throw std::invalid_argument(name + " is '" + std::string(text) +
                                "': it must be a whole number of at least " +
                                std::to_string(least));
  }
  return value;
}

bool takes_value(const std::string& name) {
  return name == "--data" || name == "--snapshot-dir" || name == "--metrics" ||
         name == "--batch-size" || name == "--seed";
}

arguments parse(const std::vector<std::string>& words) {
  arguments result;
  const char* const data = std::getenv("DDPRUN_DIGITS");
  result.data = data != nullptr && *data != '\0' ? data : ".cache/digits.csv";
  std::size_t positional = 0;
  for (std::size_t at = 0; at < words.size(); ++at) {
    std::string name = words[at];
    if (!name.starts_with("--")) {
      if (positional == 0) result.epochs = parse_number("EPOCHS", name, 1);
      if (positional == 1) result.snapshot_interval = parse_number("SNAPSHOT_INTERVAL", name, 1);
      if (positional > 1) throw std::invalid_argument("'" + name + "' is one argument too many");
      ++positional;
      continue;
    }
    std::string value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (takes_value(name)) {
      if (++at == words.size()) throw std::invalid_argument(name + " needs a value");
      value = words[at];
    }
    if (name == "--help") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (name == "--data") {
      result.data = value;
    } else if (name == "--snapshot-dir") {
      result.snapshot_folder = value;
    } else if (name == "--metrics") {
      result.metrics = value;
    } else if (name == "--batch-size") {
      result.batch_size = parse_number(name, value, 1);
    } else if (name == "--seed") {
      result.seed = parse_number(name, value, 0);
    } else {
      throw std::invalid_argument("unknown option " + name + " (--help lists them)");
    }
  }
  return result;
}

}  // namespace

arguments parse_arguments(int count, char** values) {
  try {
    return parse(std::vector<std::string>(values + 1, values + count));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "snapshot_resume: %s\n", error.what());
    std::exit(2);
  }
}

}  // namespace snapshot_resume
