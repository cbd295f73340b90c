#include "worker/nccl_id.hpp"

#include "rendezvous/base/hex_text.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

namespace ddprun::worker {
namespace {

constexpr std::size_t magic_bytes = 8;

// Returns -1 for anything but a lower-case hexadecimal digit.
int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return -1;
}

}  // namespace

std::string nccl_id_text(const nccl_id& id) {
  std::size_t size = id.size();
  while (size > 0 && id[size - 1] == 0)
    --size;
  return hex_text({id.data(), size});
}

std::optional<nccl_id> nccl_id_from(std::string_view text) {
  if (text.empty() || text.size() % 2 != 0 || text.size() > 2 * nccl_id_bytes) return std::nullopt;
  nccl_id id{};
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const int high = digit_of(text[at]);
    const int low = digit_of(text[at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id[at / 2] = static_cast<char>(high * 16 + low);
  }
  return id;
}

std::string address_of(const nccl_id& id) {
  sockaddr_in6 whole{};  // large enough for both families
  std::memcpy(&whole, id.data() + magic_bytes, sizeof whole);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (whole.sin6_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &whole.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(whole.sin6_port));
  }
  if (whole.sin6_family != AF_INET) return {};
  sockaddr_in address{};
  std::memcpy(&address, id.data() + magic_bytes, sizeof address);
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port));
}

}  // namespace ddprun::worker
