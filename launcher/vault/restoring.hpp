// Reports the progress of restoring an entry, at the beginning and from time to time, because the
// workers wait for it.
#pragma once

#include "launcher/vault/desk.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::launcher::vault {

class restoring {
 public:
  // `where` is "node 3" or a folder.
  restoring(desk& to, std::string name, std::string where);

  // The entry has `all` bytes. A second call starts it anew.
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
