// One client TLS connection through this machine's OpenSSL (3 or 1.1); ddprun is not linked with
// it. The server's certificate must be issued by the given authority, for its name.
//
// Thread rule: one thread; blocks, within the socket's time-outs. The thread must block all
// signals, because OpenSSL writes without MSG_NOSIGNAL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::launcher::kubernetes {

class tls_client {
 public:
  // Returns null with a `problem`. `descriptor` is a connected, blocking socket, and stays the
  // caller's. `authority_file`: PEM certificates; empty: the system's.
  static std::unique_ptr<tls_client> open(int descriptor, const std::string& host,
                                          const std::string& authority_file, std::string& problem);
  ~tls_client();
  tls_client(const tls_client&) = delete;
  tls_client& operator=(const tls_client&) = delete;

  bool write(std::string_view bytes);
  // Returns how many bytes were read; 0: the connection is over.
  std::size_t read(char* buffer, std::size_t size);

 private:
  struct state;
  explicit tls_client(std::unique_ptr<state> held);
  std::unique_ptr<state> state_;
};

}  // namespace ddprun::launcher::kubernetes
