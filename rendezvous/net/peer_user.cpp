#include "rendezvous/net/peer_user.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun::net {
namespace {

// Sockets that are bound to no interface match any; those on loopback match only this number, which
// is the same in each network namespace.
constexpr std::uint32_t loopback_interface = 1;

struct question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

asio::ip::address plain_of(const asio::ip::address& given) {
  if (!given.is_v6() || !given.to_v6().is_v4_mapped()) return given;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, given.to_v6());
}

void put_address(__be32 (&to)[4], const asio::ip::address& from) {
  if (from.is_v4()) {
    const auto bytes = from.to_v4().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    const auto bytes = from.to_v6().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

question question_for(const tcp::endpoint& local, const tcp::endpoint& remote,
                      std::uint32_t number) {
  const asio::ip::address here = plain_of(local.address());
  question asked{};
  asked.header.nlmsg_len = sizeof asked;
  asked.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  asked.header.nlmsg_flags = NLM_F_REQUEST;
  asked.header.nlmsg_seq = number;
  asked.body.sdiag_family = here.is_v4() ? AF_INET : AF_INET6;
  asked.body.sdiag_protocol = IPPROTO_TCP;
  asked.body.idiag_states = ~std::uint32_t{0};
  asked.body.id.idiag_sport = htons(local.port());
  asked.body.id.idiag_dport = htons(remote.port());
  put_address(asked.body.id.idiag_src, here);
  put_address(asked.body.id.idiag_dst, plain_of(remote.address()));
  const std::uint32_t scope = here.is_v6() ? here.to_v6().scope_id() : 0;
  asked.body.id.idiag_if = scope != 0 ? scope : loopback_interface;
  asked.body.id.idiag_cookie[0] = asked.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return asked;
}

int state_of(tcp::socket& socket) {
  tcp_info facts{};
  socklen_t size = sizeof facts;
  const int handle = socket.native_handle();
  const bool known = ::getsockopt(handle, IPPROTO_TCP, TCP_INFO, &facts, &size) == 0;
  return known ? static_cast<int>(facts.tcpi_state) : static_cast<int>(TCP_CLOSE);
}

}  // namespace

peer_users::peer_users()
    : netlink_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)) {
  std::ifstream map("/proc/self/uid_map");
  bool is_whole = false;  // this is the initial user namespace, or one that maps every uid
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    mapped_.emplace_back(first, count);
    is_whole |= count == std::numeric_limits<std::uint32_t>::max();
  }
  std::uint32_t overflow = 0;
  if (!is_whole && std::ifstream("/proc/sys/kernel/overflowuid") >> overflow)
    stands_for_ = overflow;
}

std::string peer_users::refusal(tcp::socket& socket) {
  const answer owner = owner_of_peer(socket);
  const std::uint32_t own = ::geteuid();
  // Accept what cannot be known: the socket is not visible here, or its uid has no number in our
  // user namespace.
  if (owner.what == found::nothing || (owner.what == found::user && !is_mapped(owner.user))) {
    return {};
  }
  if (owner.what == found::user && (owner.user == 0 || owner.user == own)) return {};
  const std::string who = owner.what == found::user
                              ? "uid " + std::to_string(owner.user)
                              : "a peer that has closed its connection, so that its uid is unknown";
  return "this port of uid " + std::to_string(own) +
         " accepts no agents of other users of its host (" + who +
         "): run ddprun as the same user, or start what listens here with " +
         std::string(allow_other_users_option);
}

// A peer of this host that has already closed its end could be any user, so it is refused. A peer
// whose socket merely cannot be found still has its connection.
peer_users::answer peer_users::owner_of_peer(tcp::socket& socket) {
  error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return {found::leaving};
  const tcp::endpoint local = socket.local_endpoint(error);
  if (error) return {found::leaving};
  const answer owner = ask(remote, local);
  if (owner.what != found::nothing) return owner;
  const asio::ip::address there = plain_of(remote.address());
  // On another host, the kernel here cannot see the peer's socket: there is nothing to check.
  const bool is_here = there.is_loopback() || there == plain_of(local.address());
  const int state = is_here ? state_of(socket) : TCP_ESTABLISHED;
  if (state == TCP_ESTABLISHED) return {};
  // If the kernel does not find our own end either, it cannot answer such questions (no inet_diag).
  if (state != TCP_CLOSE && ask(local, remote).what == found::nothing) return {};
  return {found::leaving};
}

peer_users::answer peer_users::ask(const tcp::endpoint& local, const tcp::endpoint& remote) {
  const question asked = question_for(local, remote, ++last_question_);
  if (::send(netlink_.get(), &asked, sizeof asked, 0) != sizeof asked) return {};
  alignas(nlmsghdr) std::array<char, 4096> bytes{};
  while (true) {
    // The kernel has put the answer into the queue before `send` returns.
    const ssize_t size = ::recv(netlink_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return {};
    nlmsghdr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    // An answer to an earlier question.
    if (header.nlmsg_seq != asked.header.nlmsg_seq) continue;
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
    inet_diag_msg told{};
    std::memcpy(&told, bytes.data() + NLMSG_HDRLEN, sizeof told);
    // If no connection matches, the kernel may return a port that listens there instead.
    if (told.idiag_state == TCP_LISTEN) return {};
    // A socket without an inode no longer belongs to a process, so its uid is unknown.
    if (told.idiag_inode == 0) return {found::leaving};
    return {found::user, told.idiag_uid};
  }
}

// uids of other user namespaces all appear as the overflow uid, which may itself be mapped.
bool peer_users::is_mapped(std::uint32_t user) const {
  if (user == stands_for_) return false;
  if (mapped_.empty()) return true;
  return std::any_of(mapped_.begin(), mapped_.end(), [user](const auto& range) {
    return user >= range.first && user - range.first < range.second;
  });
}

}  // namespace ddprun::net
