#include "launcher/hosts/doctor/shared_folder.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

using times = std::map<std::uint32_t, std::optional<std::int64_t>>;

// statfs(2), and the file systems' own headers.
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

std::string text_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Empty: it is written, and the server has it.
std::string write_text(const fs::path& file, const std::string& text) {
  const unique_fd open(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const auto size = static_cast<ssize_t>(text.size());
  if (!open || ::write(open.get(), text.data(), text.size()) != size || ::fsync(open.get()) != 0)
    return file.string() + ": " + std::strerror(errno);
  return {};
}

// What each node writes: first its token, then that backwards.
std::string text_of(const node_card& card, bool is_second) {
  std::string text = card.token;
  if (is_second) std::reverse(text.begin(), text.end());
  return text;
}

class folder_look {
 public:
  folder_look(const fs::path& folder, meeting& others)
      : others_(others), place_(folder / (".ddprun-doctor-" + others.cards()[0].token)) {}

  bool prepare() {
    if (::mkdir(place_.c_str(), 0777) != 0 && errno != EEXIST) {
      seen_.problem = place_.parent_path().string() + ": " + std::strerror(errno);
      return false;
    }
    seen_.kind = kind_of(place_);
    return true;
  }

  void wait_for_others(const char* phase) { others_.wait_for_others(phase, 3 * folder_patience); }

  // By the others, from now on, for each that is there.
  times look_for(bool is_second) {
    times found;
    const time_point begin = steady_clock::now();
    for (std::uint32_t index = 0; index < others_.cards().size(); ++index) {
      if (index != others_.own_index() && !others_.gone().contains(index)) found[index];
    }
    while (true) {
      bool is_complete = true;
      for (auto& [index, time] : found) {
        if (!time && text_in(file_of(index)) == text_of(others_.cards()[index], is_second))
          time = to_micros(steady_clock::now() - begin);
        is_complete = is_complete && time;
      }
      if (is_complete || steady_clock::now() - begin > folder_patience) return found;
      std::this_thread::sleep_for(20ms);
    }
  }

  void look_once() {
    for (std::uint32_t index = 0; index < others_.cards().size(); ++index)
      text_in(file_of(index));
  }

  void write(bool is_second) {
    if (!seen_.problem.empty()) return;
    const std::uint32_t own = others_.own_index();
    seen_.problem = write_text(file_of(own), text_of(others_.cards()[own], is_second));
  }

  // Also that of nodes that went: nobody else does.
  void clean_up() {
    ::unlink(file_of(others_.own_index()).c_str());
    for (const auto& [index, why] : others_.gone())
      ::unlink(file_of(index).c_str());
    ::rmdir(place_.c_str());  // by the last one
  }

  folder_seen seen_;

 private:
  fs::path file_of(std::uint32_t index) const { return place_ / std::to_string(index); }

  meeting& others_;
  const fs::path place_;
};

}  // namespace

folder_seen examine_folder(const fs::path& folder, meeting& others) {
  folder_look look(folder, others);
  const bool is_usable = look.prepare();
  if (is_usable) look.look_once();
  look.wait_for_others("folder-ready");
  if (is_usable) look.write(false);
  look.wait_for_others("folder-written");
  if (is_usable) look.seen_.appeared = look.look_for(false);
  look.wait_for_others("folder-read");
  if (is_usable) look.write(true);
  look.wait_for_others("folder-rewritten");
  // What never appeared does not change.
  const bool sees_any = std::any_of(look.seen_.appeared.begin(), look.seen_.appeared.end(),
                                    [](const auto& each) { return each.second.has_value(); });
  if (is_usable && sees_any) look.seen_.changed = look.look_for(true);
  look.wait_for_others("folder-done");
  if (is_usable) look.clean_up();
  return look.seen_;
}

}  // namespace ddprun::launcher::doctor
