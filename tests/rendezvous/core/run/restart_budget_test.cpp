// What an instance has been charged, alone.
#include "rendezvous/core/run/restart_budget.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::origin;

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
  CHECK(budget.charge_node_loss(origin, 2));
  CHECK(budget.charge_node_loss(origin + 30min, 2));
  CHECK(budget.node_losses(origin + 59min) == 2);
  CHECK_FALSE(budget.charge_node_loss(origin + 59min, 2));
  CHECK(budget.node_losses(origin + 60min) == 2);  // the first has gone
  CHECK(budget.node_losses(origin + 3h) == 0);
  CHECK(budget.charge_node_loss(origin + 3h, 1));
  CHECK_FALSE(restart_budget().charge_node_loss(origin, 0));
}

TEST_CASE("a refill forgives what was used, and takes nothing back") {
  restart_budget budget;
  CHECK(budget.charge_restart(1));
  CHECK(budget.is_spent(1));
  budget.refill();
  CHECK_FALSE(budget.is_spent(1));
  CHECK(budget.restarts_used() == 1);
  CHECK(budget.restarts_forgiven() == 1);
  CHECK(budget.charge_restart(1));
  CHECK_FALSE(budget.charge_restart(1));
  CHECK(budget.restarts_used() == 2);
  CHECK(budget.restarts_counted() == 1);
  budget.set_restarts_used(0);  // what was forgiven is known before what was used
  CHECK(budget.restarts_forgiven() == 0);
  budget.raise_restarts_used(5);
  budget.raise_restarts_forgiven(0);
  CHECK(budget.restarts_forgiven() == 1);
  budget.set_restarts_forgiven(4);
  CHECK(budget.restarts_counted() == 1);
}
