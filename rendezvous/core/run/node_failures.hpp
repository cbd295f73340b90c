// Counts how often the workers of each node were the first to fail, and which nodes are left out
// for that: --max-node-failures.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace ddprun::core {

// So many names are counted; those that come later are not.
inline constexpr std::size_t failing_nodes_max = 4096;

class node_failures {
 public:
  // With this one.
  std::uint32_t add(const std::string& name) {
    const bool is_known = nodes_.contains(name);
    if (!is_known && nodes_.size() >= failing_nodes_max) return 0;
    return ++nodes_[name].failures;
  }
  void leave_out(const std::string& name) {
    if (!std::exchange(nodes_[name].is_left_out, true)) ++left_out_;
  }
  void take_back(const std::string& name) {
    if (std::exchange(nodes_[name].is_left_out, false)) --left_out_;
  }
  std::size_t left_out() const { return left_out_; }
  bool is_left_out(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found != nodes_.end() && found->second.is_left_out;
  }
  std::uint32_t of(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? 0 : found->second.failures;
  }
  // That it is needed all the same: true the first time.
  bool is_news(const std::string& name) {
    bool& was_said = nodes_[name].was_said;
    return !std::exchange(was_said, true);
  }
  // Names of those that are left out, with commas between; empty: none.
  std::string text() const {
    std::string made;
    for (const auto& [name, one] : nodes_) {
      if (one.is_left_out) made += (made.empty() ? "" : ", ") + name;
    }
    return made;
  }

 private:
  struct entry {
    std::uint32_t failures = 0;
    bool is_left_out = false;
    bool was_said = false;
  };
  std::map<std::string, entry> nodes_;
  std::size_t left_out_ = 0;
};

}  // namespace ddprun::core
