#define CATCH_CONFIG_MAIN
#include "tests/support/catch.hpp"

// Reports an event on each line while a program runs, for tests/runner.
#include <catch2/catch_reporter_teamcity.hpp>
