// A site_zip is a zip file in memory with our Python files and a sitecustomize.py that calls one of
// them. First in PYTHONPATH, it makes Python run that before anything else, and what comes then is
// what Python does with its command line: the script is a true __main__.
//
// The worker's Python opens it as /proc/AGENT/fd/N: neither a file on a disk nor a descriptor in
// the worker is needed. It reads it once, at its start.
//
// Thread rule: any thread. Ownership: the file is gone with the object. Errors: the system's.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher::warm {

// Files by name and text, stored and not compressed (format: PKWARE's APPNOTE 6.3, sections 4.3.7
// and 4.3.12).
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& files);

// "/proc/4711/fd/9": this process's descriptor, as others of the same user open it.
std::string path_for_others(const unique_fd& file);

// Of what Python takes as it stands.
std::string python_literal(std::string_view text);

// With `call` as the last lines of sitecustomize.py.
result<unique_fd> make_site_zip(const std::string& call);

// The same environment with that path first in PYTHONPATH; twice, where that is there and empty.
std::vector<std::string> with_site_zip(std::vector<std::string> environment,
                                       const std::string& path);

}  // namespace ddprun::launcher::warm
