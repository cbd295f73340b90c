#include "launcher/hosts/slurm/node_address.hpp"

#include "launcher/process/program_answer.hpp"

#include <chrono>
#include <netdb.h>
#include <sys/socket.h>

namespace ddprun::launcher::slurm {
namespace {

constexpr auto scontrol_limit = std::chrono::seconds(10);
constexpr std::size_t shown_bytes_max = 64 * 1024;

bool resolves(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

}  // namespace

std::string address_in(std::string_view shown, std::string_view name) {
  constexpr std::string_view key = " NodeAddr=";
  const std::size_t at = shown.find(key);
  if (at == std::string_view::npos) return {};
  shown.remove_prefix(at + key.size());
  const std::string_view address = shown.substr(0, shown.find_first_of(" \n"));
  return address == name ? std::string() : std::string(address);
}

std::string node_address(const std::string& name, const environment_map& environment) {
  if (resolves(name)) return {};
  return address_in(program_answer({"scontrol", "--oneliner", "show", "node", name}, environment,
                                   scontrol_limit, shown_bytes_max),
                    name);
}

}  // namespace ddprun::launcher::slurm
