// Reads the small files in which the kernel and drivers describe this node.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

// Its first line; empty if it cannot be read.
std::optional<std::string> first_line(const std::filesystem::path& file);

// All of it; empty if it cannot be read.
std::string whole_text(const std::filesystem::path& file);

// Its first line as a number; empty if it cannot be read or has none.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file);

// The names in a folder, sorted; empty if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace ddprun::launcher
