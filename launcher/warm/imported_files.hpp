// imported_files are the files that a zygote has imported, with what they were before they were
// read (ddprun_files.py writes them), and whether they still are that: a worker that is started
// cold reads them anew.
//
// A file has another text if its time, its size or its number is another, or if it is gone. A
// folder of a package has changed if other modules are in it: what else is written there (compiled
// files, caches) is nothing that an import would see.
//
// Thread rule: any thread; plain values. changed() blocks while the disk does, and looks at several
// files at a time: of a network's disk one may take a millisecond, and torch has 2,500. Errors: a
// text that is not whole is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::warm {

class imported_files {
 public:
  // As the zygote has written them.
  static std::optional<imported_files> read(std::string_view text);

  std::size_t size() const { return entries_.size(); }

  // The path of one that has changed; empty: none has.
  std::string changed() const;

 private:
  struct entry {
    bool is_folder = false;
    std::int64_t time = 0;  // ns
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;  // inode
    std::string path;
    std::string names;  // of a folder's modules, in order, each ended by a slash
  };

  static std::optional<entry> entry_of(std::string_view text);
  static bool has_changed(const entry& one);

  std::vector<entry> entries_;
};

}  // namespace ddprun::launcher::warm
