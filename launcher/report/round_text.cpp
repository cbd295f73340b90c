#include "launcher/report/round_text.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/messages/restart_text.hpp"

#include <cstddef>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr std::size_t command_bytes_max = 1000;

// Quotes a word if a shell would not take it as one plain word.
std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char letter : word)
    letter == '\'' ? text += "'\\''" : text += letter;
  return text + "'";
}

}  // namespace

std::string round_starts_text(round_number round, const assignment& assigned,
                              const std::string& members, const std::string& restart) {
  std::string text = "round " + std::to_string(round) + " starts: ";
  text += members.empty() ? counted(assigned.world_size, "worker") + " on " +
                                counted(assigned.group_world_size, "node")
                          : members;
  return restart.empty() ? text : text + "; " + restart;
}

std::string restarts_heard::text(instance_id instance, std::uint32_t used, std::uint32_t forgiven,
                                 std::uint32_t most) {
  const std::uint32_t before = instance == instance_ ? used_ : forgiven;
  instance_ = instance;
  used_ = used;
  return used > before ? core::restart_text(used, forgiven, most) : "";
}

std::string command_text(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    text += (text.empty() ? "" : " ") + quoted(word);
    if (text.size() > command_bytes_max) break;
  }
  if (text.size() <= command_bytes_max) return text;
  return std::string(first_of(to_valid_utf8(text), command_bytes_max)) + " ...";
}

}  // namespace ddprun::launcher
