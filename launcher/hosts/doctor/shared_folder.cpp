#include "launcher/hosts/doctor/shared_folder.hpp"

#include "launcher/base/begun_task.hpp"
#include "launcher/base/node_files.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

// Looking for the other nodes' files takes up to `folder_patience`.
constexpr std::chrono::seconds folder_limit = folder_patience + 5s;

using times = std::map<std::uint32_t, std::optional<std::int64_t>>;

// From statfs(2) and the file systems' own headers.
std::string kind_of(const fs::path& folder) {
  static const std::map<std::uint32_t, const char*> kinds = {
      {0x6969, "nfs"},      {0xef53, "ext4"},      {0x01021994, "tmpfs"},  {0x0bd00bd0, "lustre"},
      {0x47504653, "gpfs"}, {0x00c36400, "ceph"},  {0x65735546, "fuse"},   {0x794c7630, "overlay"},
      {0x58465342, "xfs"},  {0x9123683e, "btrfs"}, {0x19830326, "beegfs"}, {0xff534d42, "cifs"},
      {0x2fc12fc1, "zfs"},  {0x01021997, "9p"}};
  struct statfs found {};
  if (::statfs(folder.c_str(), &found) != 0) return "unknown";
  const auto kind = kinds.find(static_cast<std::uint32_t>(found.f_type));
  return kind == kinds.end() ? "unknown" : kind->second;
}

// Returns the problem; empty: it is written and on the server.
std::string write_text(const fs::path& file, const std::string& text) {
  const unique_fd open(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const auto size = static_cast<ssize_t>(text.size());
  if (!open || ::write(open.get(), text.data(), text.size()) != size || ::fsync(open.get()) != 0)
    return file.string() + ": " + std::strerror(errno);
  return {};
}

// The text that a node writes: first its token, then the token reversed, which has the same length.
std::string text_of(const node_card& card, bool is_second) {
  std::string text = card.token;
  if (is_second) std::reverse(text.begin(), text.end());
  return text;
}

// The file expected from each other node, by its index.
struct wanted_file {
  fs::path file;
  std::string text;
};
using wanted_files = std::map<std::uint32_t, wanted_file>;

times look_for_all(const wanted_files& wanted) {
  times found;
  for (const auto& [index, each] : wanted)
    found[index];
  const time_point begin = steady_clock::now();
  while (true) {
    bool is_complete = true;
    for (auto& [index, time] : found) {
      const wanted_file& each = wanted.at(index);
      if (!time && whole_text(each.file) == each.text)
        time = to_micros(steady_clock::now() - begin);
      is_complete = is_complete && time;
    }
    if (is_complete || steady_clock::now() - begin > folder_patience) return found;
    std::this_thread::sleep_for(20ms);
  }
}

struct usable {
  std::string problem;
  std::string kind;
};

usable make_usable(const fs::path& place) {
  if (::mkdir(place.c_str(), 0777) != 0 && errno != EEXIST)
    return {place.parent_path().string() + ": " + std::strerror(errno), {}};
  return {{}, kind_of(place)};
}

// Each access runs on a thread of its own, which may be left behind, so it gets copies.
class folder_look {
 public:
  folder_look(const fs::path& folder, meeting& others)
      : others_(others), place_(folder / (".ddprun-doctor-" + others.cards()[0].token)) {}

  void prepare() {
    const usable made = patiently([place = place_] { return make_usable(place); }, usable());
    is_usable_ = is_usable_ && made.problem.empty();
    if (!made.problem.empty()) seen_.problem = made.problem;
    seen_.kind = made.kind;
    patiently(
        [files = files_of_others(false)] {
          for (const auto& [index, each] : files)
            whole_text(each.file);
          return true;
        },
        false);
  }

  void wait_for_others(const char* phase) { others_.wait_for_others(phase, 3 * folder_patience); }

  void write(bool is_second) {
    if (!seen_.problem.empty()) return;
    const std::uint32_t own = others_.own_index();
    const std::string problem = patiently(
        [file = file_of(own), text = text_of(others_.cards()[own], is_second)] {
          return write_text(file, text);
        },
        std::string());
    if (!problem.empty()) seen_.problem = problem;
  }

  // How long each remaining node's file takes to appear, counted from now.
  times look_for(bool is_second) {
    return patiently([wanted = files_of_others(is_second)] { return look_for_all(wanted); },
                     times());
  }

  // Removes our file, and those of nodes that have gone, because nobody else does.
  void clean_up() {
    std::vector<fs::path> files = {file_of(others_.own_index())};
    for (const auto& [index, why] : others_.gone())
      files.push_back(file_of(index));
    patiently(
        [files, place = place_] {
          for (const fs::path& file : files)
            ::unlink(file.c_str());
          return ::rmdir(place.c_str()) == 0;  // the last node succeeds
        },
        false);
  }

  folder_seen seen_;

 private:
  fs::path file_of(std::uint32_t index) const { return place_ / std::to_string(index); }

  wanted_files files_of_others(bool is_second) const {
    wanted_files files;
    for (std::uint32_t index = 0; index < others_.cards().size(); ++index) {
      if (index != others_.own_index() && !others_.gone().contains(index))
        files[index] = {file_of(index), text_of(others_.cards()[index], is_second)};
    }
    return files;
  }

  // Returns `nothing` if the folder is unusable, which it is once it has not answered.
  template <typename Work, typename Answer>
  Answer patiently(Work work, Answer nothing) {
    if (!is_usable_) return nothing;
    auto answer = within(folder_limit, std::move(work));
    if (answer) return *std::move(answer);
    is_usable_ = false;
    seen_.problem = place_.parent_path().string() + ": no answer from its file system in " +
                    ddprun::to_text(folder_limit);
    return nothing;
  }

  meeting& others_;
  const fs::path place_;
  bool is_usable_ = true;
};

}  // namespace

folder_seen examine_folder(const fs::path& folder, meeting& others) {
  folder_look look(folder, others);
  look.prepare();
  look.wait_for_others("folder-ready");
  look.write(false);
  look.wait_for_others("folder-written");
  look.seen_.appeared = look.look_for(false);
  look.wait_for_others("folder-read");
  look.write(true);
  look.wait_for_others("folder-rewritten");
  // Files that never appeared cannot change.
  const bool sees_any = std::any_of(look.seen_.appeared.begin(), look.seen_.appeared.end(),
                                    [](const auto& each) { return each.second.has_value(); });
  if (sees_any) look.seen_.changed = look.look_for(true);
  look.wait_for_others("folder-done");
  look.clean_up();
  return look.seen_;
}

}  // namespace ddprun::launcher::doctor
