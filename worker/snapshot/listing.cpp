#include "worker/snapshot/listing.hpp"

#include <cerrno>
#include <chrono>

namespace ddprun::worker {

result<name_set> list_names(file_system& files, const std::string& folder) {
  const auto names = files.list(folder);
  if (!names) return names.error();
  return name_set(names->begin(), names->end());
}

result<name_set> list_until(file_system& files, const std::string& folder,
                            const std::function<bool(const name_set&)>& is_complete) {
  constexpr std::chrono::milliseconds pause{1000};
  std::chrono::milliseconds left = files.names_kept(folder);
  const std::size_t slash = folder.find_last_of('/');
  for (;; left -= pause) {
    // List the parent too, since the folder's own name may have been looked up too early.
    if (slash != std::string::npos && slash != 0) (void)files.list(folder.substr(0, slash));
    auto names = list_names(files, folder);
    if (names ? is_complete(*names) : !is_system_error(names.error(), ENOENT)) return names;
    if (left <= std::chrono::milliseconds::zero()) return names;
    files.pause(pause);
  }
}

}  // namespace ddprun::worker
