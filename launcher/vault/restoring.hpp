// Says how far an entry has come that is put back, at its begin and from time to time: the workers
// wait for it.
#pragma once

#include "launcher/vault/desk.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::launcher::vault {

class restoring {
 public:
  // `where`: "node 3", a folder.
  restoring(desk& to, std::string name, std::string where);

  // It has so many bytes; from the beginning, where it was under way already.
  void begin(std::uint64_t all);
  void add(std::uint64_t bytes);

 private:
  void say();

  desk& to_;
  std::string name_, where_;
  std::uint64_t all_ = 0;
  std::uint64_t come_ = 0;
  std::chrono::steady_clock::time_point again_;
};

}  // namespace ddprun::launcher::vault
