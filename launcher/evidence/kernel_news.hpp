// The kernel_news is what the kernel's log has said of GPUs, of memory that ran out and of file
// servers since a round began.
//
// Of a GPU the NVIDIA driver says "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, ...";
// the process is not always known to it.
//
// Thread rule: one thread at a time; it never waits. Bounded: of many lines it keeps the first ten,
// which have the reason of the others, and the last ten.
#pragma once

#include "launcher/base/kernel_log.hpp"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

// A fault that a line tells of.
struct gpu_fault {
  int number = 0;                // NVIDIA's "Xid"
  std::string gpu;               // its PCI address: "0000:3b:00"
  std::optional<pid_t> process;  // that used it, as the kernel numbers it
  bool operator==(const gpu_fault&) const = default;
};

// None: the line tells of none.
std::optional<gpu_fault> gpu_fault_in(std::string_view line);

class kernel_news {
 public:
  // `has_our_numbers`: see has_process_numbers_of_kernel_log(). Others are for tests.
  explicit kernel_news(const std::string& file = kernel_log::system_file,
                       bool has_our_numbers = has_process_numbers_of_kernel_log());

  // What was said before is of no interest.
  void begin_round();
  // Of this round, fit to be shown.
  std::vector<std::string> lines();
  // The fault that explains the end of this process: "Xid 79 on the GPU at PCI 0000:3b:00". One of
  // which the process is not known does so where the process itself has spoken of a fault of its
  // GPU. Empty: none does.
  std::string fault_of(pid_t process, bool has_spoken_of_gpu);

 private:
  void read();

  kernel_log log_;
  bool has_our_numbers_;
  std::vector<std::string> first_;
  std::deque<std::string> last_;
  std::size_t left_out_ = 0;  // between those
  std::vector<gpu_fault> faults_;
};

}  // namespace ddprun::launcher::evidence
