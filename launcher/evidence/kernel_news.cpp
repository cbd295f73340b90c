#include "launcher/evidence/kernel_news.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t lines_kept = 10;  // at each end
constexpr std::size_t kernel_line_bytes_max = 500;
constexpr std::size_t faults_max = 64;
constexpr std::array<std::string_view, 4> words_of_interest = {"Xid", "ut of memory", "oom-kill",
                                                               "nfs: server"};

// Xid 45 reports the cleanup after a process has ended for any reason.
constexpr int fault_of_cleanup = 45;
// Of a program: memory that it may not use, and a channel that was reset for it.
constexpr std::array faults_of_programs = {13, 31, 43};

bool is_of_interest(std::string_view line) {
  return std::any_of(words_of_interest.begin(), words_of_interest.end(),
                     [line](auto word) { return line.find(word) != std::string_view::npos; });
}

bool is_address(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF:.") == text.npos;
}

}  // namespace

std::optional<gpu_fault> gpu_fault_in(std::string_view line) {
  // Only the driver's own lines count: others begin with a program's name, which anyone may choose.
  constexpr std::string_view begin = "NVRM: Xid (", bus = "PCI:", middle = "): ", process = "pid=";
  if (!line.starts_with(begin)) return {};
  line.remove_prefix(begin.size());
  if (line.starts_with(bus)) line.remove_prefix(bus.size());
  const std::size_t end = line.find(middle);
  if (end == line.npos || !is_address(line.substr(0, end))) return {};
  gpu_fault fault;
  fault.gpu = line.substr(0, end);
  line.remove_prefix(end + middle.size());
  const auto number = leading_number<int>(line);
  if (!number || *number <= 0) return {};
  fault.number = *number;
  const std::size_t at = line.find(process);
  if (at == line.npos) return fault;
  line.remove_prefix(at + process.size());
  if (line.starts_with('\'')) line.remove_prefix(1);
  fault.process = leading_number<pid_t>(line);
  return fault;
}

kernel_news::kernel_news(const std::string& file, bool has_our_numbers)
    : log_(file), has_our_numbers_(has_our_numbers) {}

void kernel_news::begin_round() {
  log_.skip();
  first_.clear();
  last_.clear();
  left_out_ = 0;
  faults_.clear();
}

void kernel_news::read() {
  for (std::size_t count = 0; count < kernel_lines_read_max; ++count) {
    const auto line = log_.next();
    if (!line) return;
    if (!is_of_interest(*line)) continue;
    auto fault = gpu_fault_in(*line);
    if (fault && faults_.size() < faults_max) faults_.push_back(std::move(*fault));
    std::string shown = in_one_line(to_valid_utf8(*line));
    shown.resize(first_of(shown, kernel_line_bytes_max).size());
    if (first_.size() < lines_kept) {
      first_.push_back(std::move(shown));
      continue;
    }
    last_.push_back(std::move(shown));
    if (last_.size() <= lines_kept) continue;
    last_.pop_front();
    ++left_out_;
  }
}

std::vector<std::string> kernel_news::lines() {
  read();
  std::vector<std::string> all = first_;
  if (left_out_ != 0) all.push_back("... (" + std::to_string(left_out_) + " more)");
  all.insert(all.end(), last_.begin(), last_.end());
  return all;
}

bool kernel_news::has_fault() {
  read();
  return std::any_of(faults_.begin(), faults_.end(), [](const gpu_fault& fault) {
    return fault.number != fault_of_cleanup &&
           std::find(faults_of_programs.begin(), faults_of_programs.end(), fault.number) ==
               faults_of_programs.end();
  });
}

std::string kernel_news::fault_of(pid_t process, bool has_spoken_of_gpu) {
  read();
  const auto explains = [&](const gpu_fault& fault) {
    if (fault.number == fault_of_cleanup) return false;
    // In a PID namespace of our own, the kernel's PID cannot be compared with ours.
    if (fault.process && has_our_numbers_) return *fault.process == process;
    return has_spoken_of_gpu;
  };
  const auto found = std::find_if(faults_.begin(), faults_.end(), explains);
  if (found == faults_.end()) return {};
  return "Xid " + std::to_string(found->number) + " on the GPU at PCI " + found->gpu;
}

}  // namespace ddprun::launcher::evidence
