#include "rendezvous/net/packet.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace ddprun::net {
namespace {

constexpr std::size_t control_bytes = CMSG_SPACE(packet_descriptors_max * sizeof(int));

}  // namespace

result<socket_pair> make_packet_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error(errno);
  socket_pair made{unique_fd(ends[0]), unique_fd(ends[1])};
  set_nonblocking(made.ours.get());
  return made;
}

error_code send_packet(int to, std::string_view text, const std::vector<int>& descriptors) {
  DDPRUN_ASSERT(descriptors.size() <= packet_descriptors_max);
  alignas(cmsghdr) std::array<char, control_bytes> control{};
  iovec bytes{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t size = descriptors.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), size);
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? system_error(errno) : error_code();
}

result<packet> receive_packet(int from) {
  alignas(cmsghdr) std::array<char, control_bytes> control{};
  std::array<char, packet_bytes_max> text;
  iovec bytes{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t count;
  do {
    count = ::recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return system_error(errno);
  packet read;
  read.text.assign(text.data(), static_cast<std::size_t>(count));
  for (cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr;
       rights = CMSG_NXTHDR(&message, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t held = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < held; ++index) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + index * sizeof(int), sizeof(int));
      read.descriptors.emplace_back(fd);
    }
  }
  return read;
}

}  // namespace ddprun::net
