// Lists folders that other machines write in. A network file system remembers which names were not
// there when it was asked for them, and may say so for a minute after another machine has made
// them (NFS: acdirmax). So no name is asked for before a listing has shown it, and a listing that
// lacks a name is made again for as long as it may be an old one (file_system::names_kept).
//
// Linux's NFS client asks the server when a folder is opened, so that the first listing is right
// but on a mount with `nocto` (fs/nfs/dir.c, nfs_lookup_verify_inode, Linux 6.1).
#pragma once

#include "worker/snapshot/file_system.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::worker {

using name_set = std::set<std::string, std::less<>>;

// Of what is in it now, as far as this machine knows.
result<name_set> list_names(file_system& files, const std::string& folder);

// Lists the folder until it has all that `is_complete` wants, or for as long as it may be shown as
// it was; the last listing then. A folder that is not there is one that may come.
result<name_set> list_until(file_system& files, const std::string& folder,
                            const std::function<bool(const name_set&)>& is_complete);

// For the text of an error about a name that this machine does not see.
constexpr std::string_view shared_folder_hint =
    "the folder must be one that all nodes share, on NFS mounted with lookupcache=positive";

}  // namespace ddprun::worker
