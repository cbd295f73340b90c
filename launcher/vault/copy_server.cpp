#include "launcher/vault/copy_server.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/random_value.hpp"
#include "launcher/base/text.hpp"
#include "launcher/vault/entry_stream.hpp"
#include "launcher/vault/next_word.hpp"
#include "launcher/vault/peer_calls.hpp"
#include "rendezvous/base/hex_text.hpp"
#include "rendezvous/base/private_folders.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun::launcher::vault {
namespace {

constexpr int callers_max = 16;
constexpr std::chrono::seconds stranger_limit{5};
constexpr std::chrono::milliseconds pause_when_short{100};

class caller {
 public:
  caller(std::shared_ptr<desk> shared, line_stream stream)
      : desk_(std::move(shared)), stream_(std::move(stream)) {}

  void serve(const std::string& token) {
    const auto hello = stream_.line(stranger_limit);
    if (!hello || *hello != std::string(greeting) + token) {
      desk_->tell_once("stranger",
                       "something that does not belong to this job has connected to the port for "
                       "copies, and was turned away");
      return;
    }
    const auto question = stream_.line(stranger_limit);
    if (!question) return;
    std::string_view rest = *question;
    const std::string_view verb = next_word(rest);
    const auto of = whole_number<std::uint32_t>(next_word(rest));
    if (!of) return answer("no unknown request");
    if (verb == "saves") {
      note_saver(*of);
      answer("ok");
    } else if (verb == "put") {
      put(*of);
    } else if (verb == "get") {
      get(*of, rest);
    } else {
      answer("no unknown request");
    }
  }

 private:
  void answer(const std::string& text) { (void)stream_.send(text + "\n"); }

  void note_saver(std::uint32_t of) {
    {
      const std::lock_guard lock(desk_->mutex);
      if (!desk_->savers.insert(of).second) return;
    }
    desk_->tell(note_level::debug, "node " + std::to_string(of) + " saves, too");
  }

  std::string disk_of(const std::string& folder) const { return desk_->wanted.disk + "/" + folder; }
  bool is_kept(std::uint32_t of, const version& what) const {
    for (const std::string& folder : {node_folder(of), copy_folder(of)}) {
      const auto found = read_manifest(disk_of(folder) + "/" + folder_of(what));
      if (found && found->what == what) return true;
    }
    return false;
  }

  void put(std::uint32_t of) {
    const auto line = stream_.line(stranger_limit);
    const auto head = line ? read_head(*line) : std::nullopt;
    if (!head) return answer("no malformed entry");
    if (head->from.has_part_of(of)) note_saver(of);
    const auto is_aside = [&] { return desk_->is_set_aside({of, head->what}); };
    // No node wants an entry that is set aside, so the caller may count it as copied.
    if (is_aside() || is_kept(of, head->what)) return answer("have");
    const std::string disk = disk_of(copy_folder(of));
    if (const error_code error = make_private_folders(disk))
      return answer("no cannot create " + disk + ": " + error.message());
    answer("send");
    // Each call has a number of its own: an abandoned copy may still be removed while the next one
    // starts.
    static std::atomic<std::uint64_t> calls{0};
    const std::string mark = desk_->mark + "-" + std::to_string(of) + "-" + std::to_string(++calls);
    const outcome done = keep_by(disk, head->what, mark, [&](int unfinished, manifest& made) {
      return receive_files(stream_, *head, unfinished, std::string(files_folder) + "/", made,
                           [&](std::uint64_t) { return !is_aside(); });
    });
    // It may have been set aside while it was renamed.
    if (done.is_done() && is_aside()) set_aside_on_disk(disk, head->what);
    if (!done.is_done()) return answer("no " + done.problem);
    remove_older(disk, copies_kept);
    answer("kept");
    desk_->tell(note_level::debug, head->what.name + " of node " + std::to_string(of) +
                                       " is kept in " + disk + ", too");
  }

  // `kept` returns the folder on disk; empty: the entry is in memory.
  std::optional<sent_entry> find(std::uint32_t of, const version& what, std::string& kept) const {
    if (desk_->is_set_aside({of, what})) return std::nullopt;
    for (const std::string& folder : {node_folder(of), copy_folder(of)}) {
      kept = disk_of(folder) + "/" + folder_of(what);
      if (desk_->is_damaged(kept)) continue;
      auto found = from_disk(kept);
      if (found && found->what == what) return found;
    }
    kept.clear();
    std::string home;
    {
      const std::lock_guard lock(desk_->mutex);
      if (!desk_->home) return std::nullopt;
      home = desk_->home.path();
    }
    auto memory = open_folder(home + "/" + node_folder(of));
    if (!memory) return std::nullopt;
    for (entry& one : complete_entries(list_files(memory->get()))) {
      if (one.what != what || !one.problem.empty()) continue;
      one.from = desk_->origin_of({of, what});
      return from_memory(std::move(*memory), one);
    }
    return std::nullopt;
  }

  void get(std::uint32_t of, std::string_view rest) {
    const auto order = whole_number<std::int64_t>(next_word(rest));
    if (!order || !is_safe_path(rest)) return answer("no malformed entry");
    std::string kept;
    const auto found = find(of, {*order, std::string(rest)}, kept);
    if (!found) return answer("no it was removed meanwhile");
    answer(head_of(*found));
    const outcome done = send_files(stream_, *found, [](std::uint64_t) { return true; });
    // The connection breaks off in the middle, so the caller asks again, and is then sent another
    // copy.
    if (!kept.empty() && (done.is_damaged || done.has_changed)) {
      desk_->note_damaged(kept);
      desk_->tell(note_level::warning, kept + " is damaged (" + done.problem + ")");
    }
  }

  std::shared_ptr<desk> desk_;
  line_stream stream_;
};

struct caller_count {
  std::atomic<int> now = 0;
};

void serve_one(const std::shared_ptr<desk>& shared, const std::shared_ptr<caller_count>& count,
               const std::string& token, int socket) {
  worker::blocking_stream stream(socket);
  // The caller sees the connection close, and tries again later.
  if (++count->now > callers_max) {
    --count->now;
    return;
  }
  try {
    const signals_blocked blocked;
    std::thread([shared, count, token, lines = line_stream(std::move(stream))]() mutable {
      caller(shared, std::move(lines)).serve(token);
      --count->now;
    }).detach();
  } catch (const std::system_error&) {  // the system has no thread left: the caller tries again
    --count->now;
  }
}

// Runs until the listener is shut down.
void accept_all(const std::shared_ptr<desk>& shared, int listener, const std::string& token) {
  const unique_fd own(listener);
  const auto count = std::make_shared<caller_count>();
  while (true) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) {
      serve_one(shared, count, token, socket);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      std::this_thread::sleep_for(pause_when_short);
    } else if (errno == EINVAL || errno == EBADF) {
      return;
    }
  }
}

std::string draw_token() {
  const auto drawn = random_value<std::array<char, 16>>();
  return hex_text({drawn.data(), drawn.size()});
}

// Listens on all addresses, of IPv4 and IPv6 if the system has both.
unique_fd listen_on(std::uint16_t port, std::string& problem) {
  for (const int family : {AF_INET6, AF_INET}) {
    unique_fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) continue;
    const int on = 1;
    const int off = 0;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 six = {};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const auto* const where = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&six)
                                                 : reinterpret_cast<const sockaddr*>(&four);
    const socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
    if (::bind(socket.get(), where, size) == 0 && ::listen(socket.get(), callers_max) == 0)
      return socket;
    problem = last_system_error().message();
  }
  if (problem.empty()) problem = last_system_error().message();
  return {};
}

std::uint16_t port_of(int socket) {
  sockaddr_storage found = {};
  socklen_t size = sizeof found;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&found), &size) != 0) return 0;
  return ntohs(found.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&found)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&found)->sin_port);
}

}  // namespace

std::string copy_folder(std::uint32_t group_rank) {
  return "copy-of-" + node_folder(group_rank);
}

copy_server::copy_server(unique_fd listener, std::uint16_t port, std::string token)
    : listener_(std::move(listener)), port_(port), token_(std::move(token)) {}

std::unique_ptr<copy_server> copy_server::start(std::shared_ptr<desk> shared, std::uint16_t port,
                                                std::string& problem) {
  unique_fd listener = listen_on(port, problem);
  if (!listener) return nullptr;
  // The thread gets a descriptor of its own: ours may be closed, and its number reused, at any
  // time.
  unique_fd second(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 3));
  if (!second) {
    problem = last_system_error().message();
    return nullptr;
  }
  const std::uint16_t bound = port_of(listener.get());
  std::unique_ptr<copy_server> made(new copy_server(std::move(listener), bound, draw_token()));
  try {
    const signals_blocked blocked;
    std::thread([shared = std::move(shared), token = made->token_, socket = second.get()] {
      accept_all(shared, socket, token);
    }).detach();
    (void)second.release();
  } catch (const std::system_error& error) {
    problem = error.what();
    return nullptr;
  }
  return made;
}

copy_server::~copy_server() {
  ::shutdown(listener_.get(), SHUT_RDWR);
}

}  // namespace ddprun::launcher::vault
