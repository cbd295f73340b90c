// Serves one TCPStore keyspace for tests and benchmarks: prints its port and runs until its
// standard input ends or a signal comes, so that it cannot outlive the test that started it.
// "renew" on a line of its own hands the port on to a fresh keyspace.
//
//   store_server [PORT]
#include "rendezvous/store/listener.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace {

namespace asio = boost::asio;

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Reads commands until standard input ends, then stops the context.
class console {
 public:
  console(asio::io_context& context, ddprun::store::listener& listener)
      : context_(context), listener_(listener), input_(context, ::dup(STDIN_FILENO)) {}

  void read() {
    asio::async_read_until(input_, asio::dynamic_buffer(line_), '\n',
                           [this](ddprun::error_code error, std::size_t bytes) {
                             if (error) return context_.stop();
                             if (line_.substr(0, bytes) == "renew\n") {
                               listener_.renew();
                               std::cout << "renewed" << std::endl;
                             }
                             line_.erase(0, bytes);
                             read();
                           });
  }

 private:
  asio::io_context& context_;
  ddprun::store::listener& listener_;
  asio::posix::stream_descriptor input_;
  std::string line_;
};

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  asio::io_context context(1);
  ddprun::store::keyspace_options options;
  options.log = [](ddprun::note_level, const std::string& text) { std::cerr << text << std::endl; };
  ddprun::store::listener listener(context.get_executor(), options);
  const int port = argc > 1 ? std::atoi(argv[1]) : 0;
  if (const auto error = listener.open("", static_cast<std::uint16_t>(port))) {
    std::cerr << "store_server: cannot listen on port " << port << ": " << error.message()
              << std::endl;
    return 1;
  }
  std::cout << listener.port() << std::endl;
  console commands(context, listener);
  commands.read();
  asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](ddprun::error_code, int) { context.stop(); });
  context.run();
}
