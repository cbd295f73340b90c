// Our own terminal, as far as a worker uses it (--pty): which worker does, its current size, and
// its modes before a worker (a line editor in a debugger) changed them.
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

// The terminal that a worker gets for the stream with that route, where ours has the size `own`;
// empty: a pipe. No file should contain terminal output, and only one rank may draw, so all others
// get a pipe. Pure.
std::optional<terminal_size> terminal_of_worker(pty_mode mode, std::uint32_t rank,
                                                const log_route& route,
                                                std::optional<terminal_size> own);

class own_terminal {
 public:
  // `resized` is called when the size has changed.
  own_terminal(boost::asio::any_io_executor executor, std::function<void()> resized);

  // The current size; empty: that stream of ours is not a terminal.
  static std::optional<terminal_size> size_of(log::output_stream stream);

  // A worker gets the terminal: watch it from now on.
  void lend();
  // No worker has it any more: restores the modes if the terminal is still ours.
  void take_back();

 private:
  void watch();

  boost::asio::signal_set signals_;
  std::function<void()> resized_;
  std::optional<termios> modes_;  // while it is lent
  bool is_watched_ = false;
};

}  // namespace ddprun::launcher
