#include "rendezvous/net/resolve.hpp"

#include "rendezvous/net/threads.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <cerrno>
#include <mutex>
#include <netdb.h>
#include <utility>

namespace ddprun::net {
namespace {

error_code look_up_error(int code, int system_error) {
  switch (code) {
    case EAI_NONAME:
    case EAI_NODATA:
      return asio::error::host_not_found;
    case EAI_AGAIN:
      return asio::error::host_not_found_try_again;
    case EAI_MEMORY:
      return ddprun::system_error(ENOMEM);
    case EAI_SYSTEM:
      return ddprun::system_error(system_error);
    default:
      return asio::error::no_recovery;
  }
}

// Blocks as long as the system's resolver does.
error_code ask_system(const std::string& host, std::uint16_t port, endpoints& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (code != 0) return look_up_error(code, errno);
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    tcp::endpoint endpoint;
    if (item->ai_addrlen > endpoint.capacity()) continue;
    std::copy_n(reinterpret_cast<const char*>(item->ai_addr), item->ai_addrlen,
                reinterpret_cast<char*>(endpoint.data()));
    endpoint.resize(item->ai_addrlen);
    endpoint.port(port);
    found.push_back(endpoint);
  }
  ::freeaddrinfo(list);
  return found.empty() ? error_code(asio::error::host_not_found) : error_code();
}

}  // namespace

// On cancel the executor is released under the lock, so that the thread never posts to a loop that
// is gone. Until then it counts as outstanding work, so the loop waits for the answer.
struct resolver::request {
  std::mutex mutex;
  executor where;  // empty once cancelled
  handler done;    // used by the loop's thread only

  static void answer(const std::shared_ptr<request>& self, error_code error, endpoints found) {
    const std::lock_guard lock(self->mutex);
    if (!self->where) return;
    asio::post(self->where, [self, error, found = std::move(found)]() mutable {
      {
        const std::lock_guard guard(self->mutex);
        self->where = executor();
      }
      if (const handler tell = std::exchange(self->done, nullptr)) tell(error, std::move(found));
    });
  }
};

resolver::resolver(executor where) : resolver(std::move(where), ask_system) {}

void resolver::start(std::string host, std::uint16_t port, handler done) {
  cancel();
  request_ = std::make_shared<request>();
  request_->where = asio::prefer(executor_, asio::execution::outstanding_work.tracked);
  request_->done = std::move(done);
  if (const auto address = numeric_address(host)) {
    return request::answer(request_, {}, {tcp::endpoint(*address, port)});
  }
  std::thread thread;
  const error_code refused =
      start_thread(thread, "ddprun-look-up",
                   [asked = request_, look_up = look_up_, host = std::move(host), port] {
                     endpoints found;
                     const error_code error = look_up(host, port, found);
                     request::answer(asked, error, std::move(found));
                   });
  if (refused) return request::answer(request_, refused, {});
  thread.detach();
}

void resolver::cancel() {
  const auto ending = std::exchange(request_, nullptr);
  if (!ending) return;
  const std::lock_guard lock(ending->mutex);
  ending->where = executor();
  ending->done = nullptr;
}

std::optional<asio::ip::address> numeric_address(std::string_view host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return address;
}

}  // namespace ddprun::net
