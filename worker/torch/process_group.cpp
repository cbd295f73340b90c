// The one source with ProcessGroupGloo.hpp. It includes Debian's headers of Gloo, which are older
// than the Gloo inside libtorch_cpu: only shared pointers to Gloo's types are touched here.
#include "worker/torch/process_group.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <signal.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr const char* key_prefix = "ddprun_worker";

// "rank 3 of 4, store at 10.0.0.7:29500"
std::string place(const environment& environment) {
  const bool v6 = environment.master_address.find(':') != std::string::npos;
  return "rank " + std::to_string(environment.rank) + " of " +
         std::to_string(environment.world_size) + ", store at " + (v6 ? "[" : "") +
         environment.master_address + (v6 ? "]:" : ":") + std::to_string(environment.master_port);
}

// What happened, without the C++ backtrace on the further lines of LibTorch's texts, and without
// the place in Gloo's sources before it: "[/pytorch/third_party/gloo/.../pair.cc:547] ".
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  const std::size_t end = line.find("] ");
  if (line.starts_with("[/") && end != std::string::npos) line.erase(0, end + 2);
  return line;
}

void guarded_at(const environment& environment, const std::string& what,
                const std::function<void()>& work) {
  try {
    work();
  } catch (const process_group_error&) {
    throw;
  } catch (const c10::Error& error) {
    throw process_group_error(place(environment) + ": " + what + ": " +
                              first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw process_group_error(place(environment) + ": " + what + ": " + first_line(error.what()));
  }
}

// This host's address on the way to the store, as text; empty when there is none. Nothing is sent:
// connecting a datagram socket only asks the routing table.
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

c10::intrusive_ptr<c10d::Store> open_store(const environment& environment,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = environment.rank == 0 && !environment.agent_store;
  options.numWorkers = environment.world_size;
  options.timeout = timeout;
  options.multiTenant = options.isServer;
  return c10::make_intrusive<c10d::PrefixStore>(
      key_prefix, c10::make_intrusive<c10d::TCPStore>(environment.master_address, options));
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(
    const environment& environment, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const char* const interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces != nullptr && *interfaces != '\0') {
    std::istringstream names(interfaces);
    for (std::string name; std::getline(names, name, ',');) {
      guarded_at(environment, "GLOO_SOCKET_IFNAME='" + std::string(interfaces) + "'", [&] {
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(name));
      });
    }
  } else if (const auto address = own_address_towards(environment); !address.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  options->threads = static_cast<int>(options->devices.size()) * 2;
  return options;
}

// Gloo writes to its sockets so that a peer that has died would end this rank by SIGPIPE, without a
// word, and as though the fault were its own. Python ignores the signal from its start.
void ignore_broken_pipes() {
  struct sigaction set {};
  if (::sigaction(SIGPIPE, nullptr, &set) != 0 || set.sa_handler != SIG_DFL) return;
  set.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &set, nullptr);
}

}  // namespace

process_group process_group::join(const environment& environment, process_group_options options) {
  ignore_broken_pipes();
  const int rank = static_cast<int>(environment.rank);
  const int world_size = static_cast<int>(environment.world_size);
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  guarded_at(environment, "cannot reach the store",
             [&] { store = open_store(environment, options.join_timeout); });
  guarded_at(environment, "cannot join the other ranks", [&] {
    // Ranks connect with the join timeout; the longer one is for their work.
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
        store, rank, world_size, gloo_options(environment, options.join_timeout));
    backend->setTimeout(options.collective_timeout);
    group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world_size);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    group->setGroupName("ddprun");
  });
  return process_group(environment, std::move(group));
}

void process_group::guarded(const char* what, const std::function<void()>& work) const {
  guarded_at(environment_, what, work);
}

void process_group::all_reduce_sum(at::Tensor& tensor) {
  guarded("all_reduce", [&] {
    std::vector<at::Tensor> tensors{tensor};
    group_->allreduce(tensors)->wait();
  });
}

void process_group::broadcast(at::Tensor& tensor, std::uint32_t root) {
  guarded("broadcast", [&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(tensors, options)->wait();
  });
}

std::string process_group::broadcast_bytes(std::string bytes, std::uint32_t root) {
  auto size = at::tensor(static_cast<std::int64_t>(bytes.size()), at::kLong).reshape({1});
  broadcast(size, root);
  const auto count = size.item<std::int64_t>();
  auto content = at::empty({count}, at::kByte);
  if (rank() == root) std::memcpy(content.data_ptr(), bytes.data(), bytes.size());
  if (count > 0) broadcast(content, root);
  return std::string(static_cast<const char*>(content.data_ptr()), static_cast<std::size_t>(count));
}

void process_group::barrier() {
  guarded("barrier", [&] { group_->barrier()->wait(); });
}

}  // namespace ddprun::worker
