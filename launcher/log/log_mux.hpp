// A log_mux reads the output pipes of all workers and hands whole, prefixed lines to the writer.
//
// A source without a prefix (one worker alone) is passed through as it comes, partial lines too: a
// prompt or a progress bar looks as without ddprun. Where the writer's queue of a stream is full,
// the pipes that lead to it are not read: the workers wait in write(), as they would on a terminal.
//
// Thread rule: the main thread; handlers are called on the executor, never from inside a call.
// Memory: one shared buffer, and per source a partial line of at most `output_line_bytes_max`.
#pragma once

#include "launcher/log/line_splitter.hpp"
#include "rendezvous/log/writer.hpp"
#include "rendezvous/net/descriptors.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun {

inline constexpr std::size_t output_line_bytes_max = 64 * 1024;

class log_mux {
 public:
  struct source {
    unique_fd pipe;      // read end
    std::string prefix;  // "[node-a:0] "; empty: pass through
    output_stream to = output_stream::output;
    std::function<void(std::string_view)> tap;  // sees the raw bytes; may be empty
    std::function<void()> ended;                // the pipe is at its end and everything handed on
  };
  using source_id = std::uint64_t;

  // `out` must outlive it; its room_handler is taken.
  log_mux(boost::asio::any_io_executor executor, writer& out);
  ~log_mux();
  log_mux(const log_mux&) = delete;
  log_mux& operator=(const log_mux&) = delete;

  source_id add(source from);

  // Nobody waits for this source any longer: its handlers are dropped. What is in the pipe now is
  // still handed on, when the writer has room; then it is closed, whoever else holds the other end.
  void release(source_id id);

  // True while the source waits for the writer.
  bool waits(source_id id) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct entry;

  void arm(const std::shared_ptr<entry>& from);
  void read(const std::shared_ptr<entry>& from);
  void hand_on(entry& from, std::string_view bytes);
  void push_batch(const entry& from);
  void end(const std::shared_ptr<entry>& from);
  void resume(output_stream stream);

  boost::asio::any_io_executor executor_;
  writer& writer_;
  std::vector<char> buffer_;
  std::string batch_;  // the prefixed lines of one read
  source_id last_id_ = 0;
  std::unordered_map<source_id, std::shared_ptr<entry>> entries_;
  std::shared_ptr<log_mux*> self_;  // for what the writer's thread posts
};

}  // namespace ddprun
