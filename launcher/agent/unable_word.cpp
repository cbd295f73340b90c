#include "launcher/agent/unable_word.hpp"

#include "launcher/agent/own_job.hpp"
#include "launcher/process/guardian_sender.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/net/host_name.hpp"
#include "rendezvous/protocol/agent.hpp"

#include <array>
#include <ctime>
#include <future>
#include <memory>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher {
namespace {

using clock = std::chrono::steady_clock;

session_id draw_session() {
  session_id drawn;
  while (::getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) {
  }
  return drawn;
}

// It joins, asks to leave in the same breath, and says goodbye.
std::string bytes_of(const launch_options& options, const std::string& node,
                     const std::string& why) {
  hello words;
  words.version = version;
  words.run_id = options.run_id;
  words.session = draw_session();
  words.node = node;
  words.node_is_explicit = !options.node_id.empty();
  words.host = net::short_host_name();
  words.worker_count = 1;
  words.node_rank = options.node_rank;
  words.role = options.role;
  say_job(words, own_job(options, node, std::time(nullptr)));
  words.address = options.local_address;
  words.settings = options.settings;
  words.state.seq = 1;
  words.state.draining = true;
  cause unable;
  unable.kind = cause_class::start;
  unable.node = node;
  unable.text = why;
  words.state.causes.push_back(std::move(unable));
  return protocol::encode(agent_message(std::move(words))) +
         protocol::encode(agent_message(goodbye{}));
}

void send_to(const cli::endpoint_address& endpoint, const std::string& bytes,
             clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found) != 0) return;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> numeric{};
    const bool is_read = ::getnameinfo(each->ai_addr, each->ai_addrlen, numeric.data(),
                                       numeric.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    if (is_read && send_bytes(numeric.data(), endpoint.port, bytes, deadline)) return;
  }
}

}  // namespace

void tell_run_unable(const launch_options& options, const std::string& node,
                     const std::string& why) {
  if (options.standalone || options.settings.nodes_max + options.settings.spares_max == 1) return;
  // Which of several ports is this run's is not known: at the first may be another job's daemon.
  if (!options.more_ports.empty()) return;
  // A name service cannot be told to stop: where it takes too long its thread ends with the
  // process.
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> told = done->get_future();
  try {
    std::thread([done, endpoint = options.endpoint, bytes = bytes_of(options, node, why)] {
      send_to(endpoint, bytes, clock::now() + unable_word_limit);
      done->set_value();
    }).detach();
  } catch (const std::system_error&) {
    // No more threads are allowed here. What cannot work has been said, and its exit code stands.
    return;
  }
  told.wait_for(unable_word_limit);
}

}  // namespace ddprun::launcher
