// The only file that names the test framework: Catch2 2.13, as packaged by Debian 12.
#pragma once

#include <catch2/catch.hpp>
