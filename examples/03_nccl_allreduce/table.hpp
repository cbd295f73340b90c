// The table of nccl-tests, so that the figures of both can be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace allreduce {

struct measure {
  double microseconds = 0;  // for one all_reduce
  std::uint64_t wrong = 0;  // elements that are wrong
};

class table {
 public:
  explicit table(std::uint32_t world_size) : world_size_(world_size) {}

  std::string head() const;
  // Formats the line for `bytes` of float32.
  std::string line(std::size_t bytes, const measure& out_of_place, const measure& in_place);
  // The total of wrong elements, and the mean of all bus bandwidths.
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
