// Our own terminal, as far as a worker keeps it (--pty): which worker does, how large it is now,
// and how it was before a worker (a line editor in a debugger) changed its modes.
//
// Thread rule: the main thread; the handler is called on the executor.
#pragma once

#include "launcher/cli/output_options.hpp"
#include "launcher/log/log_route.hpp"
#include "launcher/log/terminal_size.hpp"
#include "rendezvous/log/writer.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <termios.h>

namespace ddprun::launcher {

// What a worker has of our terminal, whose size is `own`, for the stream with that route; none: a
// pipe. A file of its output shall not have what is written for a terminal, nor a rank beside which
// others draw, but for one. Pure.
std::optional<terminal_size> terminal_of_worker(pty_mode mode, std::uint32_t rank,
                                                const log_route& route,
                                                std::optional<terminal_size> own);

class own_terminal {
 public:
  // `resized` is called when the size has changed.
  own_terminal(boost::asio::any_io_executor executor, std::function<void()> resized);

  // Now; none: that stream of ours is no terminal.
  static std::optional<terminal_size> size_of(log::output_stream stream);

  // A worker is given it: watch from now on.
  void lend();
  // No worker has it any more: the modes are as they were, where the terminal is still ours.
  void take_back();

 private:
  void watch();

  boost::asio::signal_set signals_;
  std::function<void()> resized_;
  std::optional<termios> modes_;  // while it is lent
  bool is_watched_ = false;
};

}  // namespace ddprun::launcher
