// A host stream is one of the two outputs of an ssh. It takes out the lines of the script and of
// ddprun itself, and passes the rest to the writer unchanged, line by line.
//
// Nothing is passed on before `let_pass`, because a login shell may print anything before ddprun
// runs.
//
// It reads only as much as the writer has room for. The workers on the other host then block, as on
// a terminal that is stopped.
//
// Thread rule: the executor's thread. Ownership: owns its descriptor. Handlers are called from the
// loop; `ended` is called once, as the last one, and may destroy the stream.
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
    // Gets a whole line without its newline. True: it is ours and not shown.
    std::function<bool(std::string_view line)> take;
    std::function<void()> ended;
  };

  // `id` is unique among all that write. Lines of ours begin with `magic` or "{".
  host_stream(boost::asio::any_io_executor executor, log::writer& out, log::output_stream to,
              std::uint64_t id, std::string magic, unique_fd pipe, handlers told);

  void let_pass() { passes_ = true; }
  // To be called when the writer has room again.
  void resume();
  // Stops reading; `ended` is not called.
  void close();
  // Closes the stream if everything written to it has been read. True: this call has closed it.
  bool give_up_if_idle();
  // Whether everything written to it has been read.
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
  std::string open_beginning_;  // of the unfinished line
  std::vector<char> buffer_;
  std::uint64_t bytes_read_ = 0;
  bool passes_ = false;
  bool waits_for_room_ = false;
  lifetime alive_;
};

}  // namespace ddprun::launcher::ssh
