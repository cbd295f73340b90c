// The table that nccl-tests prints, so that figures can be laid side by side with its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace allreduce {

struct measure {
  double microseconds = 0;  // of one all_reduce
  std::uint64_t wrong = 0;  // elements
};

class table {
 public:
  explicit table(std::uint32_t world_size) : world_size_(world_size) {}

  std::string head() const;
  // A line for `bytes` of float32.
  std::string line(std::size_t bytes, const measure& out_of_place, const measure& in_place);
  // Wrong elements in all, and the mean of all bus bandwidths.
  std::string foot() const;
  std::uint64_t wrong() const { return wrong_; }

 private:
  std::string columns(std::size_t bytes, const measure& one);

  std::uint32_t world_size_;
  std::uint64_t wrong_ = 0;
  double bandwidth_sum_ = 0;
  std::size_t bandwidths_ = 0;
};

}  // namespace allreduce
