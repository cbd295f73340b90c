// What torch.distributed.elastic.timer's FileTimerClient writes to the named pipe of its launcher:
// a line of JSON for each timer that is set or released,
// {"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1764037000.5, "signal":
// 9} (torch/distributed/elastic/timer/file_based_local_timer.py, 2.11 to 2.15). A line that is no
// longer than a pipe takes at once never mixes with another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::workers {

struct timer_request {
  std::int64_t process = 0;  // above 0
  std::string scope;         // any text, valid UTF-8
  double expires_at = 0;     // seconds since 1970; below 0: the timer is released
  int signal = 0;            // that the process gets then; 0: none
};

// None: it is no such line.
std::optional<timer_request> read_timer_request(std::string_view line);

// Cuts what comes from the pipe into requests.
class timer_stream {
 public:
  // Without its newline: the client itself refuses to write a longer one.
  static constexpr std::size_t line_bytes_max = 4096;

  struct heard {
    std::vector<timer_request> requests;
    std::string problem;  // the first of what was left out; empty: nothing was
  };
  heard read(std::string_view bytes);

 private:
  void end_line(heard& to);

  std::string begun_;     // of a line whose end is still to come
  bool is_over_ = false;  // that line is too long: left out up to its end
};

}  // namespace ddprun::launcher::workers
