// What FileTimerClient of torch.distributed.elastic.timer writes to the named pipe of its launcher:
// a line of JSON for each timer that is set or released,
// {"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1764037000.5, "signal":
// 9} (torch/distributed/elastic/timer/file_based_local_timer.py, 2.11 to 2.15). Lines of at most
// PIPE_BUF bytes never mix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::workers {

struct timer_request {
  std::int64_t process = 0;  // positive
  std::string scope;         // any text, valid UTF-8
  double expires_at = 0;     // seconds since 1970; negative: the timer is released
  int signal = 0;            // sent to the process when it expires; 0: none
};

// None: the line has another form.
std::optional<timer_request> read_timer_request(std::string_view line);

// Splits the bytes of the pipe into requests.
class timer_stream {
 public:
  // Without its newline. The client does not write longer lines.
  static constexpr std::size_t line_bytes_max = 4096;

  struct heard {
    std::vector<timer_request> requests;
    std::string problem;  // the first line that was ignored; empty: none was
  };
  heard read(std::string_view bytes);

 private:
  void end_line(heard& to);

  std::string begun_;     // of an incomplete line
  bool is_over_ = false;  // the line is too long, and is ignored to its end
};

}  // namespace ddprun::launcher::workers
