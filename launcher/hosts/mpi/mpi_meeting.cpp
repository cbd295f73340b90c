#include "launcher/hosts/mpi/mpi_meeting.hpp"

#include "launcher/base/text.hpp"
#include "launcher/network/own_addresses.hpp"

#include <algorithm>

namespace ddprun::launcher::hosts::mpi {
namespace {

constexpr std::string_view meeting_key = "ddprun-meeting";
constexpr std::string_view tag_word = "tags";

std::string card_key(std::uint32_t rank) {
  return "ddprun-card-" + std::to_string(rank);
}

std::vector<std::string> parts_of(std::string_view text, char between) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(between);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Many hosts have a 169.254.x.x address towards their service processor, and others have the same
// one.
bool is_for_meeting(const address& each) {
  constexpr std::uint32_t link_local = 0xa9fe;
  const bool is_of_link = each.is_v4() && each.to_v4().to_uint() >> 16 == link_local;
  return is_for_others(each) && !is_of_link;
}

bool is_of(const host_facts& host, const address& each) {
  return std::find(host.addresses.begin(), host.addresses.end(), each) != host.addresses.end();
}

// Returns each own address from which one of these addresses is reached.
std::vector<address> ways_to(const card& other, const host_facts& host) {
  std::vector<address> ways;
  for (const address& each : other.addresses) {
    if (is_of(host, each)) continue;  // a bridge that every host has, with the same address
    const std::optional<address> from = host.towards(each);
    const bool is_new = from && std::find(ways.begin(), ways.end(), *from) == ways.end();
    if (is_new && is_for_meeting(*from)) ways.push_back(*from);
  }
  return ways;
}

bool is_on(const host_facts& host, const card& other) {
  return std::all_of(other.addresses.begin(), other.addresses.end(),
                     [&](const address& each) { return is_of(host, each); });
}

cli::usage_error not_ours(std::string_view text) {
  return {"rank 0 sent something that is not from ddprun: \"" + std::string(text.substr(0, 60)) +
          "\": is it another version?"};
}

cli::parsed<meeting> choose(exchange& board, std::uint32_t size, const host_facts& host) {
  std::vector<card> others;
  meeting chosen;
  chosen.tags_lines = host.tags_lines;
  for (std::uint32_t rank = 1; rank < size; ++rank) {
    const auto text = board.get(rank, card_key(rank));
    if (!text) return text.error();
    const auto said = read_card(*text);
    if (!said) return said.error();
    chosen.tags_lines = chosen.tags_lines || said->tags_lines;
    others.push_back(*said);
  }
  const std::optional<address> own = reachable_address(host, others);
  if (!own) {
    return cli::usage_error{"the host of rank 0 cannot reach any address of the others"};
  }
  chosen.host = own->to_string();
  chosen.port = host.free_port();
  if (chosen.port == 0) return cli::usage_error{"the host of rank 0 has no free port"};
  chosen.run_id = host.new_run_id();
  if (auto wrong = board.put(std::string(meeting_key), to_text(chosen))) return std::move(*wrong);
  return chosen;
}

}  // namespace

std::string to_text(const card& said) {
  std::string text = said.tags_lines ? std::string(tag_word) : "-";
  for (const address& each : said.addresses) {
    const std::string more = "," + each.to_string();
    if (text.size() + more.size() > exchange::value_bytes_max) break;
    text += more;
  }
  return text;
}

cli::parsed<card> read_card(std::string_view text) {
  card said;
  const std::vector<std::string> parts = parts_of(text, ',');
  if (parts.front() != tag_word && parts.front() != "-") return not_ours(text);
  said.tags_lines = parts.front() == tag_word;
  for (std::size_t index = 1; index < parts.size(); ++index) {
    boost::system::error_code error;
    said.addresses.push_back(boost::asio::ip::make_address(parts[index], error));
    if (error) return not_ours(text);
  }
  return said;
}

std::string to_text(const meeting& said) {
  return said.host + "," + std::to_string(said.port) + "," + said.run_id + "," +
         (said.tags_lines ? std::string(tag_word) : "-");
}

cli::parsed<meeting> read_meeting(std::string_view text) {
  const std::vector<std::string> parts = parts_of(text, ',');
  if (parts.size() != 4 || parts[2].empty()) return not_ours(text);
  meeting said;
  boost::system::error_code error;
  boost::asio::ip::make_address(parts[0], error);
  said.port = whole_number<std::uint16_t>(parts[1]).value_or(0);
  if (error || said.port == 0) return not_ours(text);
  if (parts[3] != tag_word && parts[3] != "-") return not_ours(text);
  said.host = parts[0];
  said.run_id = parts[2];
  said.tags_lines = parts[3] == tag_word;
  return said;
}

card card_of(const host_facts& host) {
  card own;
  own.tags_lines = host.tags_lines;
  for (const address& each : host.addresses) {
    if (is_for_meeting(each)) own.addresses.push_back(each);
  }
  return own;
}

std::optional<address> reachable_address(const host_facts& host, const std::vector<card>& others) {
  struct candidate {
    address own;
    std::size_t votes = 0;
  };
  std::vector<candidate> candidates;
  // IPv4 first if both are equally good.
  for (const bool is_v6 : {false, true}) {
    for (const address& each : host.addresses) {
      if (each.is_v6() == is_v6) candidates.push_back({each});
    }
  }
  for (const card& other : others) {
    const std::vector<address> ways = ways_to(other, host);
    for (candidate& each : candidates) {
      if (std::find(ways.begin(), ways.end(), each.own) != ways.end()) ++each.votes;
    }
  }
  const auto best = std::max_element(
      candidates.begin(), candidates.end(),
      [](const auto& left, const auto& right) { return left.votes < right.votes; });
  if (best != candidates.end() && best->votes > 0) return best->own;
  const bool are_all_here = std::all_of(others.begin(), others.end(),
                                        [&](const card& other) { return is_on(host, other); });
  if (are_all_here) return boost::asio::ip::make_address("127.0.0.1");
  return {};
}

cli::parsed<meeting> meet(exchange& board, std::uint32_t rank, std::uint32_t size,
                          const host_facts& host) {
  if (auto wrong = board.put(card_key(rank), to_text(card_of(host)))) return std::move(*wrong);
  if (auto wrong = board.fence()) return std::move(*wrong);
  meeting agreed;
  if (rank == 0) {
    auto chosen = choose(board, size, host);
    if (!chosen) return chosen.error();
    agreed = std::move(*chosen);
  }
  if (auto wrong = board.fence()) return std::move(*wrong);
  if (rank == 0) return agreed;
  const auto text = board.get(0, std::string(meeting_key));
  if (!text) return text.error();
  return read_meeting(*text);
}

}  // namespace ddprun::launcher::hosts::mpi
