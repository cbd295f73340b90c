// Serves one TCPStore keyspace for tests and benchmarks: prints its port, and runs until its
// standard input ends or a signal comes, so that it cannot outlive its test. A line "renew"
// replaces the keyspace by a fresh one.
//
//   store_server [PORT]
#include "rendezvous/net/descriptor_limit.hpp"
#include "tests/support/store_listener.hpp"

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  ddprun::net::raise_descriptor_limit();
  ddprun::store::reactor loop;
  ddprun::store::keyspace_options options;
  options.log = [](ddprun::note_level, const std::string& text) { std::cerr << text << std::endl; };
  ddprun::tests::store_listener listener(loop, options);
  const int port = argc > 1 ? std::atoi(argv[1]) : 0;
  if (const auto error = listener.listen(static_cast<std::uint16_t>(port))) {
    std::cerr << "store_server: cannot listen on port " << port << ": " << error.message()
              << std::endl;
    return 1;
  }
  std::cout << listener.port() << std::endl;
  std::thread commands([&] {
    std::string line;
    while (std::getline(std::cin, line)) {
      if (line != "renew") continue;
      loop.post([&] {
        listener.renew();
        std::cout << "renewed" << std::endl;
      });
    }
    loop.stop();
  });
  loop.run();
  commands.join();
}
