// The one place that names the test framework: Catch2 2.13, as Debian 12 packages it.
#pragma once

#include <catch2/catch.hpp>
