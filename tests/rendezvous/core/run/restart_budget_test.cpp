// What an instance has been charged, alone.
#include "rendezvous/core/run/restart_budget.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;

namespace {

constexpr time_point start = time_point{} + 1000s;

}  // namespace

TEST_CASE("restarts are charged up to their limit") {
  restart_budget budget;
  CHECK(budget.charge_restart(2));
  CHECK(budget.charge_restart(2));
  CHECK_FALSE(budget.charge_restart(2));
  CHECK(budget.restarts_used() == 2);
  CHECK_FALSE(restart_budget().charge_restart(0));
}

TEST_CASE("who knows of more restarts is believed, who knows of fewer is not") {
  restart_budget budget;
  budget.raise_restarts_used(3);
  budget.raise_restarts_used(1);
  CHECK(budget.restarts_used() == 3);
  budget.set_restarts_used(0);
  CHECK(budget.restarts_used() == 0);
}

TEST_CASE("a loss of a node counts for an hour") {
  restart_budget budget;
  CHECK(budget.charge_node_loss(start, 2));
  CHECK(budget.charge_node_loss(start + 30min, 2));
  CHECK(budget.node_losses(start + 59min) == 2);
  CHECK_FALSE(budget.charge_node_loss(start + 59min, 2));
  CHECK(budget.node_losses(start + 60min) == 2);  // the first has gone
  CHECK(budget.node_losses(start + 3h) == 0);
  CHECK(budget.charge_node_loss(start + 3h, 1));
  CHECK_FALSE(restart_budget().charge_node_loss(start, 0));
}
