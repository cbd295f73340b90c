#include "rendezvous/log/writer.hpp"

#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/threads.hpp"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t file_chunk_bytes = 64 * 1024;
constexpr std::chrono::milliseconds stuck_limit{100};

// As much as one write may take without waiting, ending at a line where one ends.
std::size_t next_chunk(std::string_view rest, std::size_t bytes_max) {
  if (rest.size() <= bytes_max) return rest.size();
  const auto newline = rest.substr(0, bytes_max).rfind('\n');
  return newline == std::string_view::npos ? bytes_max : newline + 1;
}

}  // namespace

// What the thread and the owner share; it lives as long as either.
struct writer::shared {
  // One of the two streams. `writing` and `written` are the thread's own.
  struct channel {
    int fd = -1;
    const char* name = "";
    std::size_t chunk_bytes = PIPE_BUF;
    std::string queue;
    std::string writing;
    std::size_t written = 0;
    std::uint64_t left_out = 0;  // refused since `queue` was last taken: they belong at its end
    bool closed = false;
    bool told_full = false;
  };

  channel& at(output_stream stream) { return channels[static_cast<std::size_t>(stream)]; }

  enum class answer { room, full, refused };

  answer append(output_stream stream, std::string_view bytes, std::size_t refuse_at);
  void run();
  bool collect();
  void write_some(output_stream stream);
  std::string left_out_line(std::uint64_t count) const;
  void close(output_stream stream, int error);
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto count = ::write(wake_fd.get(), &one, sizeof(one));
  }

  mutable std::mutex mutex;
  std::condition_variable changed;  // thread to owner: finished, or idle
  channel channels[2];
  std::size_t queue_bytes = 0;
  std::string name;
  std::function<void(output_stream)> room_handler;
  unique_fd wake_fd;
  bool stopping = false;
  bool abandoned = false;  // stop before the next write: the owner takes the descriptors back
  bool finished = false;
  std::thread thread;
};

writer::shared::answer writer::shared::append(output_stream stream, std::string_view bytes,
                                              std::size_t refuse_at) {
  bool was_empty = false;
  bool room = false;
  {
    const std::lock_guard lock(mutex);
    channel& to = at(stream);
    if (to.closed) return answer::room;
    if (to.queue.size() > refuse_at) {
      ++to.left_out;
      return answer::refused;
    }
    was_empty = to.queue.empty();
    to.queue.append(bytes);
    room = to.queue.size() < queue_bytes;
    if (!room) to.told_full = true;
  }
  // With bytes already there, the thread has been woken and has not looked yet.
  if (was_empty) wake();
  return room ? answer::room : answer::full;
}

// Takes over what was pushed. True while there is something to write.
bool writer::shared::collect() {
  bool room[2] = {false, false};
  bool pending = false;
  {
    const std::lock_guard lock(mutex);
    for (auto& from : channels) {
      if (from.written == from.writing.size() && !from.queue.empty()) {
        from.writing.clear();
        from.written = 0;
        from.writing.swap(from.queue);
        if (from.left_out != 0) from.writing += left_out_line(std::exchange(from.left_out, 0));
        room[&from - channels] = std::exchange(from.told_full, false);
      }
      if (from.written < from.writing.size()) pending = true;
    }
  }
  for (const auto stream : {output_stream::output, output_stream::errors}) {
    if (room[static_cast<std::size_t>(stream)] && room_handler) room_handler(stream);
  }
  return pending;
}

std::string writer::shared::left_out_line(std::uint64_t count) const {
  return name + ": " + std::to_string(count) + (count == 1 ? " line was" : " lines were") +
         " left out here: nobody read them in time\n";
}

void writer::shared::write_some(output_stream stream) {
  channel& to = at(stream);
  const std::string_view rest = std::string_view(to.writing).substr(to.written);
  const auto count = ::write(to.fd, rest.data(), next_chunk(rest, to.chunk_bytes));
  if (count >= 0) {
    to.written += static_cast<std::size_t>(count);
  } else if (errno != EINTR && errno != EAGAIN) {
    close(stream, errno);
  }
}

void writer::shared::close(output_stream stream, int error) {
  const auto other =
      stream == output_stream::output ? output_stream::errors : output_stream::output;
  std::string line = name + ": " + at(stream).name + " is closed: " + std::strerror(error) +
                     "; going on without it\n";
  bool room = false;
  {
    const std::lock_guard lock(mutex);
    channel& broken = at(stream);
    broken.closed = true;
    broken.queue.clear();
    broken.writing.clear();
    broken.written = 0;
    room = std::exchange(broken.told_full, false);
    if (!at(other).closed) at(other).queue += line;
  }
  if (room && room_handler) room_handler(stream);
}

// With all signals blocked: EPIPE in place of SIGPIPE, and no handlers here.
void writer::shared::run() {
  while (true) {
    const bool pending = collect();
    if (!pending) {
      const std::lock_guard lock(mutex);
      if (stopping && channels[0].queue.empty() && channels[1].queue.empty()) break;
    }
    pollfd entries[3] = {{wake_fd.get(), POLLIN, 0}, {-1, POLLOUT, 0}, {-1, POLLOUT, 0}};
    for (int index = 0; index < 2; ++index) {
      const channel& from = channels[index];
      if (from.written < from.writing.size()) entries[index + 1].fd = from.fd;
    }
    if (::poll(entries, 3, -1) < 0) continue;
    if (entries[0].revents != 0) {
      std::uint64_t count;
      [[maybe_unused]] const auto taken = ::read(wake_fd.get(), &count, sizeof(count));
    }
    {
      const std::lock_guard lock(mutex);
      if (abandoned) break;
    }
    if (entries[1].revents != 0) write_some(output_stream::output);
    if (entries[2].revents != 0) write_some(output_stream::errors);
  }
  const std::lock_guard lock(mutex);
  finished = true;
  changed.notify_all();
}

writer::writer(options values) : shared_(std::make_shared<shared>()) {
  shared_->queue_bytes = values.queue_bytes;
  shared_->name = std::move(values.name);
  shared_->wake_fd.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int fds[2] = {values.output_fd, values.errors_fd};
  const char* names[2] = {"standard output", "standard error"};
  for (int index = 0; index < 2; ++index) {
    auto& to = shared_->channels[index];
    to.fd = fds[index];
    to.name = names[index];
    struct stat status {};
    if (::fstat(to.fd, &status) == 0 && S_ISREG(status.st_mode)) to.chunk_bytes = file_chunk_bytes;
  }
  const error_code error =
      net::start_thread(shared_->thread, "ddprun-writer", [state = shared_] { state->run(); });
  if (error) throw std::runtime_error(net::thread_problem("the output", error));
}

writer::~writer() {
  finish(std::chrono::milliseconds(0));
}

void writer::on_room(std::function<void(output_stream)> handler) {
  shared_->room_handler = std::move(handler);
}

bool writer::push(output_stream stream, std::string_view bytes) {
  return shared_->append(stream, bytes, std::string::npos) == shared::answer::room;
}

bool writer::has_room(output_stream stream) const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->at(stream).told_full;
}

bool writer::say(std::string_view line) {
  const auto limit = 2 * shared_->queue_bytes;
  return shared_->append(output_stream::errors, line, limit) != shared::answer::refused;
}

bool writer::finish(std::chrono::milliseconds limit) {
  if (!shared_->thread.joinable()) return true;
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->wake();
  const auto is_finished = [this] { return shared_->finished; };
  const bool done = shared_->changed.wait_for(lock, limit, is_finished);
  if (!done) {
    // It waits for room nearly always, and leaves at once.
    shared_->abandoned = true;
    shared_->wake();
    shared_->changed.wait_for(lock, stuck_limit, is_finished);
  }
  const bool ended = shared_->finished;
  shared_->room_handler = nullptr;
  lock.unlock();
  if (ended) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
  return done;
}

}  // namespace ddprun
