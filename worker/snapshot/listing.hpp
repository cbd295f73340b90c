// Lists folders that other machines write to. A network file system caches that a name did not
// exist when it was looked up, and may report so for a minute after another machine has created it
// (NFS: acdirmax). So a name is only opened after a listing has shown it, and a listing that lacks
// a name is repeated for as long as it may be outdated (file_system::names_kept).
//
// Linux's NFS client asks the server when a folder is opened, so the first listing is right unless
// the mount has `nocto` (fs/nfs/dir.c, nfs_lookup_verify_inode, Linux 6.1).
//
// Thread rule: one thread per file_system. Errors: the kernel's.
#pragma once

#include "worker/snapshot/file_system.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::worker {

using name_set = std::set<std::string, std::less<>>;

// The names that this machine shows now.
result<name_set> list_names(file_system& files, const std::string& folder);

// Lists the folder until `is_complete` accepts the listing, or for as long as it may be outdated;
// then returns the last listing. A folder that does not exist yet is waited for as well.
result<name_set> list_until(file_system& files, const std::string& folder,
                            const std::function<bool(const name_set&)>& is_complete);

// For the text of an error about a name that this machine does not show.
constexpr std::string_view shared_folder_hint =
    "the folder must be one that all nodes share, on NFS mounted with lookupcache=positive";

}  // namespace ddprun::worker
