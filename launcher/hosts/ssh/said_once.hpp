// Shows each line that many agents of a run print only once: they all report the start, the failure
// and the end of a round in the same words.
//
// A line is shown as often as the host that repeats it most often has printed it, because a host
// that repeats a line means it again.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>

namespace ddprun::launcher::ssh {

class said_once {
 public:
  // The number of different lines that are remembered: the newest.
  static constexpr std::size_t lines_max = 1000;

  // True: the line is new and to be shown.
  bool is_new(std::size_t host, const std::string& text) {
    const auto [line, is_first] = lines_.try_emplace(text);
    if (is_first) {
      order_.push_back(text);
      if (order_.size() > lines_max) {
        lines_.erase(order_.front());
        order_.pop_front();
      }
    }
    heard& all = line->second;
    const std::size_t times = ++all.by_host[host];
    if (times <= all.shown) return false;
    all.shown = times;
    return true;
  }

 private:
  struct heard {
    std::size_t shown = 0;
    std::map<std::size_t, std::size_t> by_host;
  };

  std::map<std::string, heard> lines_;
  std::deque<std::string> order_;
};

}  // namespace ddprun::launcher::ssh
