// Reads the small files in which the kernel and drivers describe this node.
//
// Thread rule: any thread. `root` stands for "/", so that tests have a node of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// Its first line; none where it cannot be read.
std::optional<std::string> first_line(const std::filesystem::path& file);

// Its first line as a number.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file);

// The names in a folder, sorted; empty where it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// The folders of this process's cgroup (version 2) and of those that it lies in, the innermost
// first; empty where there is none.
std::vector<std::filesystem::path> own_cgroups(const std::filesystem::path& root);

// "64 MiB", "1.5 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace ddprun::launcher::doctor
