#define CATCH_CONFIG_MAIN
#include "tests/support/catch.hpp"

// A line for each event while a program runs: what tests/runner reads.
#include <catch2/catch_reporter_teamcity.hpp>
