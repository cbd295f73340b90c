// A site_zip is a zip file in memory with our Python files and a sitecustomize.py that calls one of
// them. As the first entry of PYTHONPATH it makes Python run that before anything else. Then Python
// executes its command line as usual: the script is a true __main__.
//
// The worker's Python opens it as /proc/AGENT/fd/N, so it needs neither a file on a disk nor a
// descriptor in the worker. It reads the file once, at its start.
//
// Thread rule: any thread. Ownership: the file ends with the object. Errors: the system's.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher::warm {

// Returns a zip file of these names and texts, uncompressed (PKWARE's APPNOTE 6.3, sections 4.3.7
// and 4.3.12).
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& files);

// Returns "/proc/4711/fd/9", by which other processes of the user open our descriptor.
std::string path_for_others(const unique_fd& file);

// Returns an expression that evaluates to the text.
std::string python_literal(std::string_view text);

// `call` is the end of sitecustomize.py.
result<unique_fd> make_site_zip(const std::string& call);

// Puts the path first into PYTHONPATH; twice if that is set but empty, so that it can be restored.
std::vector<std::string> with_site_zip(std::vector<std::string> environment,
                                       const std::string& path);

}  // namespace ddprun::launcher::warm
