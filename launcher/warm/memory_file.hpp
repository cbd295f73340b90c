// Creates a file that exists only in memory (memfd_create), close-on-exec.
//
// Thread rule: any thread. Errors: the system's (too many open files, no memory).
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher::warm {

result<unique_fd> make_memory_file(const char* name, std::string_view text = {});

// Returns 0 if it is unknown.
std::uint64_t size_of(const unique_fd& file);

// All of it, from its beginning; what can be read, where the rest cannot.
std::string text_of(const unique_fd& file);

}  // namespace ddprun::launcher::warm
