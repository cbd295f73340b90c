// The parts of libpmix that are used, as its headers declare them.
//
// Source: pmix.h and pmix_common.h of PMIx 4.2; a C compiler has given the sizes below.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::launcher::hosts::mpi::pmix {

inline constexpr int success = 0;
inline constexpr std::uint16_t type_bool = 1;
inline constexpr std::uint16_t type_string = 3;
inline constexpr std::uint8_t scope_global = 3;
inline constexpr char collect_data[] = "pmix.collect";

struct proc {
  char space[256] = {};
  std::uint32_t rank = 0;
};

struct value {
  std::uint16_t type = 0;
  union {
    bool flag;
    char* string;
    std::byte all[24];
  } data = {};
};

struct info {
  char key[512] = {};
  std::uint32_t flags = 0;
  pmix::value value;
};

static_assert(sizeof(proc) == 260 && offsetof(proc, rank) == 256);
static_assert(sizeof(value) == 32 && offsetof(value, data) == 8);
static_assert(sizeof(info) == 552 && offsetof(info, flags) == 512 && offsetof(info, value) == 520);

using init_function = int(proc* self, info* with, std::size_t count);
using finalize_function = int(const info* with, std::size_t count);
using put_function = int(std::uint8_t scope, const char* key, value* what);
using commit_function = int();
using fence_function = int(const proc* procs, std::size_t proc_count, const info* with,
                           std::size_t count);
using get_function = int(const proc* of, const char* key, const info* with, std::size_t count,
                         value** found);
using error_string_function = const char*(int status);

}  // namespace ddprun::launcher::hosts::mpi::pmix
