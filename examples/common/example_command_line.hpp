// The command line of an example: the options of one program, parsed by CLI11.
//
//   examples::command_line line("toy", "Sums small tensors over all ranks.");
//   line.number("--batch-size", options.batch_size, "samples of each rank in a step", 1);
//   line.parse(count, values);
//
// An option that is not given keeps its value, which --help shows as the default.
#pragma once

#include "worker/environment.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace examples {

class command_line {
 public:
  command_line(std::string program, const std::string& about);
  ~command_line();

  // A name without dashes is a positional argument. The values must live until parse().
  void number(const std::string& name, std::uint64_t& value, const std::string& about,
              std::uint64_t least = 0);
  void fraction(const std::string& name, double& value, const std::string& about);
  void text(const std::string& name, std::string& value, const std::string& about);
  // Each choice has a `name`; the current `value` is the default.
  template <typename Choice>
  void one_of(const std::string& name, Choice& value, const std::vector<Choice>& choices,
              const std::string& about) {
    std::vector<std::string> names;
    for (const auto& choice : choices)
      names.push_back(choice.name);
    one_of_names(name, value.name, names, about,
                 [&value, choices](std::size_t chosen) { value = choices[chosen]; });
  }
  void flag(const std::string& name, bool& value, const std::string& about);
  // For a program that is started without a launcher: rank and world size, or with place() all
  // three.
  void rank_and_world_size(ddprun::worker::place_by_hand& place);
  void place(ddprun::worker::place_by_hand& place);

  // Exits with one line if an argument is wrong, and after --help.
  void parse(int count, char** values);
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  void one_of_names(const std::string& name, const std::string& usual,
                    const std::vector<std::string>& choices, const std::string& about,
                    const std::function<void(std::size_t)>& take);

  std::string program_;
  std::unique_ptr<CLI::App> parser_;
};

}  // namespace examples
