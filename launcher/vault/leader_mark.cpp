#include "launcher/vault/leader_mark.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view mark = "vault";
constexpr std::string_view about_mark = "it has a vault";

// Puts `first` before `rest`, with `between` between them if `rest` is not empty.
std::string in_front(std::string_view first, std::string_view between, const std::string& rest) {
  return std::string(first) + (rest.empty() ? "" : std::string(between) + rest);
}

}  // namespace

leader_data with_mark(leader_data given) {
  given.bytes = in_front(mark, " ", given.bytes);
  given.about = in_front(about_mark, "; ", given.about);
  return given;
}

bool take_mark(leader_data& given) {
  if (given.bytes == mark) {
    given = {};
    return true;
  }
  if (!given.bytes.starts_with(std::string(mark) + " ")) return false;
  given.bytes.erase(0, mark.size() + 1);
  if (given.about.starts_with(std::string(about_mark) + "; "))
    given.about.erase(0, about_mark.size() + 2);
  return true;
}

}  // namespace ddprun::launcher::vault
