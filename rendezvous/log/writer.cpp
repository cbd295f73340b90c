#include "rendezvous/log/writer.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/output_channel.hpp"
#include "rendezvous/net/threads.hpp"

#include <climits>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun::log {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds stuck_limit{100};
// How long `finish` waits for a stream that cannot be written.
constexpr std::chrono::milliseconds broken_limit{2000};

output_stream other_than(output_stream stream) {
  return stream == output_stream::output ? output_stream::errors : output_stream::output;
}

// Two descriptors of one file, usually the user's terminal.
bool is_same_file(int first, int second) {
  struct stat one {};
  struct stat two {};
  return ::fstat(first, &one) == 0 && ::fstat(second, &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

}  // namespace

// What the thread and the owner share. It lives as long as either.
struct writer::shared {
  enum class kind { workers, late, own };
  enum class answer { room, full, refused };

  output_channel& at(output_stream stream) {
    return channels[are_one ? 0 : static_cast<std::size_t>(stream)];
  }

  answer append(output_stream stream, const line_part& part, kind what);
  bool is_refused(output_channel& to, std::string_view bytes, kind what) const;
  void run();
  bool collect();
  void wait_for_room();
  void write_some(output_stream stream);
  void break_off(output_stream stream);
  void close(output_stream stream);
  void give_up_broken();
  void tell_last(output_stream about, const std::string& why);
  std::string line_about(output_stream stream, const std::string& text) {
    return name + ": " + at(stream).name + text + "\n";
  }
  void tell_room(output_stream stream) {
    const std::lock_guard lock(handler_mutex);
    if (room_handler) room_handler(stream);
  }
  // All streams that share this stream's channel have room.
  void tell_room_of(output_stream stream) {
    if (!are_one) return tell_room(stream);
    for (const auto each : {output_stream::output, output_stream::errors})
      tell_room(each);
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto count = ::write(wake_fd.get(), &one, sizeof(one));
  }

  mutable std::mutex mutex;
  std::condition_variable changed;  // from the thread: it has finished, or bytes were taken
  bool are_one = false;  // both streams are one file, and the first channel has everything
  output_channel channels[2];
  std::size_t queue_bytes = 0;
  std::size_t late_bytes = 0;
  std::string name;
  // Held while the handler is called or replaced, and never taken while `mutex` is held.
  std::mutex handler_mutex;
  std::function<void(output_stream)> room_handler;
  unique_fd wake_fd;
  clock::time_point taken_at{};  // when a stream last took a byte
  std::optional<clock::time_point> stopping_since;
  bool abandoned = false;  // stop before the next write: the owner needs the descriptors back
  bool finished = false;
  std::thread thread;
};

// Live workers pause while the queue is full, so their output is always accepted. Our own messages
// and the rest that dead workers left in pipes cannot wait, so each has its own limit.
bool writer::shared::is_refused(output_channel& to, std::string_view bytes, kind what) const {
  if (what == kind::own) return to.own_bytes > 2 * queue_bytes;
  return what == kind::late && to.held_bytes() + bytes.size() > queue_bytes + late_bytes;
}

writer::shared::answer writer::shared::append(output_stream stream, const line_part& part,
                                              kind what) {
  bool was_empty = false;
  bool room = false;
  {
    const std::lock_guard lock(mutex);
    output_channel& to = at(stream);
    // Accepted and discarded: that the stream is closed was reported.
    if (to.closed) return answer::room;
    // Show a progress message only if nothing waits before it: it is useless when it is late.
    if (part.is_passing && (!to.queue.empty() || to.broken)) return answer::room;
    if (is_refused(to, part.text, what)) {
      if (what == kind::own) ++to.left_out;
      return answer::refused;
    }
    was_empty = to.queue.empty();
    if (what == kind::own) {
      part.is_state ? to.line.append(to.queue, part) : to.append_lines(part.text);
      to.own_bytes += part.text.size();
    } else {
      to.append(part, queue_bytes);
    }
    room = to.broken || to.queue.size() < queue_bytes;
    if (!room) to.told_full = true;
  }
  // If the queue was not empty, the thread was woken for it and has not looked yet.
  if (was_empty) wake();
  return room ? answer::room : answer::full;
}

// Takes over what was pushed. Returns true while there is something to write.
bool writer::shared::collect() {
  bool room[2] = {false, false};
  bool pending = false;
  {
    const std::lock_guard lock(mutex);
    for (auto& from : channels) {
      if (!from.pending() && (!from.queue.empty() || from.writing_bytes != 0)) {
        from.collect(name);
        room[&from - channels] = std::exchange(from.told_full, false);
      }
      if (from.pending()) pending = true;
    }
  }
  for (const auto stream : {output_stream::output, output_stream::errors}) {
    if (room[are_one ? 0 : static_cast<std::size_t>(stream)]) tell_room(stream);
  }
  return pending;
}

void writer::shared::write_some(output_stream stream) {
  switch (at(stream).write_some()) {
    case output_channel::outcome::taken: {
      const std::lock_guard lock(mutex);
      taken_at = clock::now();
      return;
    }
    case output_channel::outcome::later:
      return;
    case output_channel::outcome::broken:
      return break_off(stream);
    case output_channel::outcome::closed:
      return close(stream);
  }
}

// Frees callers from waiting for a stream that cannot be written for now.
void writer::shared::break_off(output_stream stream) {
  bool room = false;
  {
    const std::lock_guard lock(mutex);
    output_channel& to = at(stream);
    // Report it once; the retries that fail are expected.
    if (std::exchange(to.broken, true)) return;
    room = std::exchange(to.told_full, false);
    output_channel& other = at(other_than(stream));
    if (!other.closed) {
      other.append_lines(
          line_about(stream, std::string(" cannot be written: ") + std::strerror(to.error) +
                                 "; trying again, and output that does not fit in memory is lost"));
    }
  }
  if (room) tell_room_of(stream);
}

void writer::shared::close(output_stream stream) {
  bool room = false;
  {
    const std::lock_guard lock(mutex);
    output_channel& to = at(stream);
    to.give_up();
    room = std::exchange(to.told_full, false);
    output_channel& other = at(other_than(stream));
    if (!other.closed) {
      other.append_lines(line_about(
          stream, std::string(" is closed: ") + std::strerror(to.error) + "; going on without it"));
    }
  }
  if (room) tell_room_of(stream);
}

// At the end, gives up streams that cannot be written, such as one on a full disk.
void writer::shared::give_up_broken() {
  const std::lock_guard lock(mutex);
  if (!stopping_since || clock::now() < *stopping_since + broken_limit) return;
  for (const auto stream : {output_stream::output, output_stream::errors}) {
    // A stream that is merely slow has the limit of `finish`.
    if (!at(stream).broken) continue;
    const output_loss lost = at(stream).give_up();
    at(stream).broken = false;
    output_channel& other = at(other_than(stream));
    if (other.closed || lost.none()) continue;
    other.append_lines(name + ": " + lost.is_lost(at(stream).name) + ": it could not be written\n");
  }
}

void writer::shared::wait_for_room() {
  pollfd entries[3] = {{wake_fd.get(), POLLIN, 0}, {-1, POLLOUT, 0}, {-1, POLLOUT, 0}};
  int limit_ms = -1;
  for (int index = 0; index < 2; ++index) {
    const output_channel& from = channels[index];
    if (!from.pending()) continue;
    // A failed stream may be writable for poll() and fail again at once (a full disk), so it is not
    // polled until its next try is due: the thread would spin.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(from.retry_at - clock::now());
    if (left.count() <= 0) {
      entries[index + 1].fd = from.fd;
    } else {
      limit_ms = static_cast<int>(limit_ms < 0 ? left.count()
                                               : std::min<std::int64_t>(limit_ms, left.count()));
    }
  }
  if (::poll(entries, 3, limit_ms) < 0) return;
  if (entries[0].revents != 0) {
    std::uint64_t count;
    [[maybe_unused]] const auto taken = ::read(wake_fd.get(), &count, sizeof(count));
  }
  {
    const std::lock_guard lock(mutex);
    // The owner takes the descriptors back, so do not write any more.
    if (abandoned) return;
  }
  if (entries[1].revents != 0) write_some(output_stream::output);
  if (entries[2].revents != 0) write_some(output_stream::errors);
}

// Says on the other stream what was lost, but only if that write cannot block.
void writer::shared::tell_last(output_stream about, const std::string& why) {
  output_channel& to = at(about);
  output_channel& other = at(other_than(about));
  if (to.closed || (to.idle() && to.dropped.none())) return;
  const output_loss lost = to.give_up();
  if (lost.none() || other.closed || !other.idle()) return;
  const std::string line = name + ": " + lost.is_lost(to.name) + ": " + why + "\n";
  pollfd entry{other.fd, POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1) return;
  [[maybe_unused]] const auto count = ::write(other.fd, line.data(), line.size());
}

// Runs with all signals blocked: a write to a closed pipe returns EPIPE, and no handler runs here.
void writer::shared::run() {
  while (true) {
    const bool pending = collect();
    if (!pending) {
      const std::lock_guard lock(mutex);
      // End only when everything that was pushed is written.
      if (stopping_since && channels[0].queue.empty() && channels[1].queue.empty()) break;
    }
    wait_for_room();
    {
      const std::lock_guard lock(mutex);
      if (abandoned) break;
    }
    give_up_broken();
  }
  const std::lock_guard lock(mutex);
  if (abandoned) {
    for (const auto stream : {output_stream::output, output_stream::errors})
      tell_last(stream, "nobody read them in time");
  }
  finished = true;
  changed.notify_all();
}

writer::writer(options values) : shared_(std::make_shared<shared>()) {
  shared_->queue_bytes = values.queue_bytes;
  shared_->late_bytes = values.late_bytes;
  shared_->name = std::move(values.name);
  shared_->wake_fd.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  shared_->are_one = is_same_file(values.output_fd, values.errors_fd);
  shared_->channels[0].open(values.output_fd, "standard output");
  shared_->channels[1].open(values.errors_fd, "standard error");
  const char* const kind = std::getenv("TERM");
  const bool can_redraw = kind == nullptr || std::strcmp(kind, "dumb") != 0;
  for (output_channel& each : shared_->channels)
    each.line = open_line(each.is_terminal && can_redraw);
  const error_code error =
      net::start_thread(shared_->thread, "ddprun-writer", [state = shared_] { state->run(); });
  if (error) throw std::runtime_error(net::thread_problem("the output", error));
}

writer::~writer() {
  finish(std::chrono::milliseconds(0));
}

void writer::on_room(std::function<void(output_stream)> handler) {
  const std::lock_guard lock(shared_->handler_mutex);
  shared_->room_handler = std::move(handler);
}

bool writer::push(output_stream stream, const line_part& part) {
  return shared_->append(stream, part, shared::kind::workers) == shared::answer::room;
}

bool writer::push_late(output_stream stream, const line_part& part) {
  return shared_->append(stream, part, shared::kind::late) != shared::answer::refused;
}

bool writer::has_room(output_stream stream) const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->at(stream).told_full;
}

bool writer::say(std::string_view line) {
  const line_part words{.text = line};
  return shared_->append(output_stream::errors, words, shared::kind::own) !=
         shared::answer::refused;
}

bool writer::can_redraw() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->at(output_stream::errors).line.redraws();
}

void writer::show_state(std::string_view text) {
  shared_->append(output_stream::errors,
                  {.text = text,
                   .how = line_part::kind::replaces,
                   .whose = own_words,
                   .is_state = true,
                   .is_passing = true},
                  shared::kind::own);
}

bool writer::finish(std::chrono::milliseconds limit) {
  if (!shared_->thread.joinable()) return true;
  std::unique_lock lock(shared_->mutex);
  const auto begin = clock::now();
  shared_->stopping_since = begin;
  shared_->wake();
  const auto is_finished = [this] { return shared_->finished; };
  // Each byte that is written restarts the limit: a slow reader is waited for, a stuck one is not.
  for (auto until = begin + limit; !shared_->finished && clock::now() < until;
       until = std::max(begin, shared_->taken_at) + limit) {
    shared_->changed.wait_until(lock, until, is_finished);
  }
  const bool done = shared_->finished;
  if (!done) {
    // The thread nearly always waits in poll(), so it ends at once.
    shared_->abandoned = true;
    shared_->wake();
    shared_->changed.wait_for(lock, stuck_limit, is_finished);
  }
  const bool ended = shared_->finished;
  lock.unlock();
  on_room(nullptr);
  if (ended) {
    shared_->thread.join();
  } else {
    // It is stuck in write(2) itself, and holds `shared` as long as it lives.
    shared_->thread.detach();
  }
  return done;
}

}  // namespace ddprun::log
