// The kernel_news collects the kernel's log lines about GPUs, exhausted memory and file servers
// since a round began.
//
// The NVIDIA driver reports a GPU's fault as "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711,
// name=python, ..."; it does not always know the process.
//
// Thread rule: one thread at a time; it never blocks. Of many lines it keeps the first ten, which
// hold the cause of the others, and the last ten.
#pragma once

#include "launcher/base/kernel_log.hpp"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

// A GPU fault in the kernel's log.
struct gpu_fault {
  int number = 0;                // NVIDIA's "Xid"
  std::string gpu;               // its PCI address: "0000:3b:00"
  std::optional<pid_t> process;  // that used the GPU, in the kernel's PID namespace
  bool operator==(const gpu_fault&) const = default;
};

// None: the line reports no fault.
std::optional<gpu_fault> gpu_fault_in(std::string_view line);

class kernel_news {
 public:
  // Tests pass other arguments than has_process_numbers_of_kernel_log().
  explicit kernel_news(const std::string& file = kernel_log::system_file,
                       bool has_our_numbers = has_process_numbers_of_kernel_log());

  // Drops all earlier lines.
  void begin_round();
  // The lines of this round, escaped for display.
  std::vector<std::string> lines();
  // The kernel has told of a fault of a GPU in this round, whosever.
  bool has_fault();
  // The fault that explains the end of this process: "Xid 79 on the GPU at PCI 0000:3b:00". A fault
  // without a known process explains it only if the process itself has reported a GPU error. Empty:
  // none explains it.
  std::string fault_of(pid_t process, bool has_spoken_of_gpu);

 private:
  void read();

  kernel_log log_;
  bool has_our_numbers_;
  std::vector<std::string> first_;
  std::deque<std::string> last_;
  std::size_t left_out_ = 0;  // between first_ and last_
  std::vector<gpu_fault> faults_;
};

}  // namespace ddprun::launcher::evidence
