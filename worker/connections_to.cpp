#include "worker/connections_to.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <optional>
#include <string_view>
#include <sys/socket.h>

namespace ddprun::worker {
namespace {

using endpoint = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;

std::optional<endpoint> endpoint_of(const sockaddr* address) {
  endpoint found{};
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 of{};
    std::memcpy(&of, address, sizeof of);
    std::memcpy(found.first.data(), &of.sin6_addr, found.first.size());
    found.second = ntohs(of.sin6_port);
    return found;
  }
  if (address->sa_family != AF_INET) return std::nullopt;
  sockaddr_in of{};
  std::memcpy(&of, address, sizeof of);
  found.first[10] = found.first[11] = 0xff;
  std::memcpy(found.first.data() + 12, &of.sin_addr, 4);
  found.second = ntohs(of.sin_port);
  return found;
}

std::vector<int> open_descriptors() {
  std::vector<int> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return numbers;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int number = -1;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && rest == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

std::optional<endpoint> peer_of(const unique_fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const told = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(socket.get(), told, &size) != 0) return std::nullopt;
  return endpoint_of(told);
}

}  // namespace

connections_to::connections_to(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &first) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(first, ::freeaddrinfo);
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next) {
    if (const auto found = endpoint_of(at->ai_addr)) peers_.push_back(*found);
  }
}

void connections_to::end() const {
  for (const int number : open_descriptors()) {
    // Duplicate the descriptor: another thread may close it, and its number may then be another
    // file's.
    const unique_fd held(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!held) continue;
    const auto peer = peer_of(held);
    if (peer && std::find(peers_.begin(), peers_.end(), *peer) != peers_.end())
      ::shutdown(held.get(), SHUT_RDWR);
  }
}

}  // namespace ddprun::worker
