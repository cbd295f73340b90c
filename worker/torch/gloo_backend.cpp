// The only source that includes ProcessGroupGloo.hpp. It includes Debian's Gloo headers, which are
// older than the Gloo inside libtorch_cpu, so it only touches shared pointers to Gloo's types.
#include "worker/torch/gloo_backend.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <arpa/inet.h>
#include <cstdlib>
#include <memory>
#include <netdb.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr int let_go_tag = 2;  // no rank sends with this tag

// True if ranks connect when they first communicate, not all pairs at the start.
bool connects_late() {
  const char* const said = std::getenv("TORCH_GLOO_LAZY_INIT");
  return said == nullptr || c10d::getDefaultGlooLazyInit();
}

// This host's address on the way to the store, as text, or an empty one. Nothing is sent:
// connecting a datagram socket only consults the routing table.
std::string own_address_towards(const environment& environment) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(environment.master_port);
  if (::getaddrinfo(environment.master_address.c_str(), port.c_str(), &hints, &found) != 0) {
    return "";
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int probe = ::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    char text[NI_MAXHOST] = "";
    const bool known =
        ::connect(probe, at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(probe, address, &size) == 0 &&
        ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
    ::close(probe);
    if (known) return text;
  }
  return "";
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(
    const environment& environment, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const char* const interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces != nullptr && *interfaces != '\0') {
    std::istringstream names(interfaces);
    for (std::string name; std::getline(names, name, ',');) {
      try {
        options->devices.push_back(
            c10d::ProcessGroupGloo::createDeviceForInterface(name, connects_late()));
      } catch (const std::exception& error) {
        throw std::runtime_error("GLOO_SOCKET_IFNAME='" + std::string(interfaces) +
                                 "': " + first_line(error.what()));
      }
    }
  } else if (const auto address = own_address_towards(environment); !address.empty()) {
    options->devices.push_back(
        c10d::ProcessGroupGloo::createDeviceForHostname(address, connects_late()));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice(connects_late()));
  }
  options->threads = static_cast<int>(options->devices.size()) * 2;
  return options;
}

}  // namespace

// Removes the C++ backtrace on further lines, the position in Gloo's sources in front
// ("[/pytorch/third_party/gloo/.../pair.cc:547] "), and Gloo's guess at the end.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  const std::size_t end = line.find("] ");
  if (line.starts_with("[/") && end != std::string::npos) line.erase(0, end + 2);
  return line.substr(0, line.find(". This is typically caused by"));
}

c10::intrusive_ptr<c10d::Backend> join_by_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int world_size, const environment& here,
                                               std::chrono::milliseconds join_timeout,
                                               std::chrono::milliseconds collective_timeout) {
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size,
                                                             gloo_options(here, join_timeout));
  // With lazy connections nobody has waited for anybody yet: do so now.
  c10d::BarrierOptions all_are_here;
  all_are_here.timeout = join_timeout;
  backend->barrier(all_are_here)->wait();
  backend->setTimeout(collective_timeout);
  return backend;
}

// When a wait times out, Gloo closes all connections of the group, and its other waits fail. The
// only other way is the destructor, which waits for those first. So this rank waits a moment for a
// message that never comes, from a rank that it is connected to: joining has connected ranks at
// distances of 1, 2, 4 ... If that connection is lost, the receive fails before its wait, so try
// the next one.
void let_go_of_gloo(c10d::ProcessGroup& group) {
  const int size = group.getSize();
  for (int distance = 1; distance < size; distance *= 2) {
    for (const int from : {group.getRank() + distance, group.getRank() + size - distance}) {
      try {
        std::vector<at::Tensor> nothing{at::zeros({1}, at::kByte)};
        group.recv(nothing, from % size, let_go_tag)->wait(std::chrono::milliseconds(1));
      } catch (const std::exception& error) {
        if (std::string_view(error.what()).find("Timed out waiting") != std::string_view::npos)
          return;
      }
    }
  }
}

}  // namespace ddprun::worker
