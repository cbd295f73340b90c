// A run of three nodes, a, b and c, that have joined.
#pragma once

#include "tests/support/run_story.hpp"

namespace ddprun::tests {

struct trio_story : run_story {
  explicit trio_story(const run_settings& settings = nodes_of(1, 3))
      : a(&joined("a", settings)), b(&joined("b", settings)), c(&joined("c", settings)) {}

  fake_node* a;
  fake_node* b;
  fake_node* c;
};

}  // namespace ddprun::tests
