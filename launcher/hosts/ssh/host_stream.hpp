// A host stream is one of the two outputs of an ssh: lines of the script and of ddprun itself are
// taken out, the rest goes to the writer as it came, line by line.
//
// Nothing passes until `let_pass`: a login shell may say anything before ddprun runs.
//
// It reads no more than the writer has room for; the other host's workers wait then, as on a
// terminal that is stopped.
//
// Thread rule: the thread of the executor. Ownership: of its descriptor. Handlers come from the
// loop, `ended` once, as the last call; it may destroy the stream.
#pragma once

#include "launcher/log/line_splitter.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/writer.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

class host_stream {
 public:
  struct handlers {
    // A whole line without its newline. True: it is ours, and not shown.
    std::function<bool(std::string_view line)> take;
    std::function<void()> ended;
  };

  // `id`: among all that write; `magic` begins lines of ours, as "{" may.
  host_stream(boost::asio::any_io_executor executor, log::writer& out, log::output_stream to,
              std::uint64_t id, std::string magic, unique_fd pipe, handlers told);

  void let_pass() { passes_ = true; }
  // The writer has room again.
  void resume();
  // Nothing is read any more, and `ended` does not come.
  void close();
  // Closes it if all that was written to it has been read. True: it has done so now.
  bool give_up_if_idle();
  // All that was written to it has been read.
  bool is_idle();
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  void arm();
  void read();
  void take_piece(const line_splitter::piece& piece);
  void watch_open();
  bool may_be_ours() const;

  log::writer& writer_;
  const log::output_stream to_;
  const std::uint64_t id_;
  const std::string magic_;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer timer_;
  handlers told_;
  line_splitter splitter_;
  std::string open_beginning_;  // of the line that has no end yet
  std::vector<char> buffer_;
  std::uint64_t bytes_read_ = 0;
  bool passes_ = false;
  bool waits_for_room_ = false;
  lifetime alive_;
};

}  // namespace ddprun::launcher::ssh
