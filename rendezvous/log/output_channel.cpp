#include "rendezvous/log/output_channel.hpp"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::log {
namespace {

constexpr std::size_t file_chunk_bytes = 64 * 1024;
constexpr std::chrono::milliseconds retry_pause{100};

// As many bytes as one write may take without blocking, up to the last newline if there is one.
std::size_t next_chunk(std::string_view rest, std::size_t bytes_max) {
  if (rest.size() <= bytes_max) return rest.size();
  const auto newline = rest.substr(0, bytes_max).rfind('\n');
  return newline == std::string_view::npos ? bytes_max : newline + 1;
}

}  // namespace

void output_channel::open(int descriptor, const char* called) {
  fd = descriptor;
  name = called;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) chunk_bytes = file_chunk_bytes;
  // Asked now, because a terminal that has hung up no longer answers.
  is_terminal = ::isatty(fd) == 1;
}

void output_channel::append(const line_part& part, std::size_t queue_bytes_max) {
  // Callers pause when the queue of a working stream is full. They do not wait for a broken one, so
  // it drops.
  if (broken && queue.size() >= queue_bytes_max) {
    dropped.add(keep_newline(part));
  } else {
    line.append(queue, part);
  }
}

std::string_view output_channel::keep_newline(const line_part& part) {
  const std::string_view taken = queue.empty() ? writing : queue;
  const bool is_in_line = !taken.empty() && taken.back() != '\n';
  const bool goes_on = dropped.none() && overrun.none();  // behind what was taken
  if (!is_in_line || !goes_on || !part.text.starts_with('\n')) return part.text;
  line_part newline = part;
  newline.text = part.text.substr(0, 1);
  line.append(queue, newline);
  return part.text.substr(1);
}

void output_channel::collect(const std::string& owner) {
  if (pending()) return;
  broken = false;
  writing.clear();
  written = 0;
  writing.swap(queue);
  own_bytes = 0;
  if (!dropped.none()) {
    line.append_lines(writing, owner + ": " + std::exchange(dropped, {}).is_lost("") + " here: " +
                                   name + " could not be written (" + std::strerror(error) + ")\n");
  }
  if (!overrun.none()) {
    line.append_lines(writing, owner + ": " + std::exchange(overrun, {}).is_lost("") +
                                   " here: " + name + " was written more slowly than they came\n");
  }
  if (left_out != 0) {
    const auto count = std::exchange(left_out, 0);
    line.append_lines(writing, owner + ": " + std::to_string(count) +
                                   (count == 1 ? " line was" : " lines were") +
                                   " left out here: nobody read them in time\n");
  }
  writing_bytes = writing.size();
}

output_channel::outcome output_channel::write_some() {
  const std::string_view rest = std::string_view(writing).substr(written);
  const auto count = ::write(fd, rest.data(), next_chunk(rest, chunk_bytes));
  if (count >= 0) {
    written += static_cast<std::size_t>(count);
    return outcome::taken;
  }
  if (errno == EINTR || errno == EAGAIN) return outcome::later;
  error = errno;
  // The reader is gone for good. For a regular file, EIO may concern one block only, or pass.
  if (error == EPIPE || error == EBADF || (error == EIO && is_terminal)) return outcome::closed;
  retry_at = std::chrono::steady_clock::now() + retry_pause;
  return outcome::broken;
}

output_loss output_channel::give_up() {
  output_loss lost;
  lost.add(std::string_view(writing).substr(written));
  lost.add(queue);
  lost.add(std::exchange(dropped, {}));
  lost.add(std::exchange(overrun, {}));
  lost.lines += std::exchange(left_out, 0);
  queue.clear();
  writing.clear();
  own_bytes = written = writing_bytes = 0;
  closed = true;
  return lost;
}

}  // namespace ddprun::log
