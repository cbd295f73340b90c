#include "launcher/hosts/mpi/hnp_uri.hpp"

#include "launcher/base/fnv_hash.hpp"

#include <algorithm>

namespace ddprun::launcher::hosts::mpi {
namespace {

void add_addresses(std::string_view list, std::vector<address>& found) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view each = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (each.starts_with('[')) each.remove_prefix(1);
    if (each.ends_with(']')) each.remove_suffix(1);
    boost::system::error_code error;
    const address read = boost::asio::ip::make_address(std::string(each), error);
    if (!error) found.push_back(read);
  }
}

}  // namespace

std::vector<address> addresses_of_mpirun(std::string_view uri) {
  std::vector<address> found;
  std::size_t begin = uri.find("://");
  while (begin != std::string_view::npos) {
    begin += 3;
    const std::size_t end = std::min(uri.find(';', begin), uri.size());
    const std::string_view part = uri.substr(begin, end - begin);
    add_addresses(part.substr(0, part.rfind(':')), found);
    begin = uri.find("://", end);
  }
  return found;
}

cli::parsed<meeting> meet_at_mpirun(std::string_view uri, std::uint32_t rank,
                                    const host_facts& host) {
  const std::vector<address> all = addresses_of_mpirun(uri);
  const auto first = std::find_if(all.begin(), all.end(), [](const address& each) {
    return !each.is_loopback() && !(each.is_v6() && each.to_v6().is_link_local());
  });
  if (first == all.end())
    return cli::usage_error{"OMPI_MCA_orte_hnp_uri has no address that other hosts can use"};
  const bool is_here =
      std::find(host.addresses.begin(), host.addresses.end(), *first) != host.addresses.end();
  if (rank == 0 && !is_here) {
    return cli::usage_error{"libpmix is not installed, and mpirun's own host, " +
                            first->to_string() + ", is not the host of rank 0"};
  }
  // Below the kernel's port range for outgoing connections.
  constexpr std::uint64_t ports_first = 20'000;
  constexpr std::uint64_t ports_count = 10'000;
  meeting agreed;
  const std::uint64_t drawn = fnv_hash(uri);
  agreed.host = first->to_string();
  agreed.port = static_cast<std::uint16_t>(ports_first + drawn % ports_count);
  agreed.run_id = "mpi-" + std::to_string(drawn);
  agreed.tags_lines = host.tags_lines;
  return agreed;
}

}  // namespace ddprun::launcher::hosts::mpi
