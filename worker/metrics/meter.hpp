// A meter is a weighted running average, such as the loss over the samples or the seconds of a
// step. torch/metrics averages meters over the ranks.
//
// Thread rule: one thread at a time.
#pragma once

namespace ddprun::worker {

class meter {
 public:
  // `weight` is the number of values that `value` averages, such as the samples of a batch; at
  // least 0.
  void add(double value, double weight = 1) {
    last_ = value;
    if (weight == 0) return;  // an empty batch has no value
    sum_ += value * weight;
    weight_ += weight;
  }
  double last() const { return last_; }
  double sum() const { return sum_; }
  double weight() const { return weight_; }
  // 0 before the first value.
  double average() const { return weight_ == 0 ? 0 : sum_ / weight_; }
  void reset() { *this = {}; }
  // Replaces the sums, by those over all ranks for instance.
  void set(double sum, double weight) {
    sum_ = sum;
    weight_ = weight;
  }

 private:
  double last_ = 0;
  double sum_ = 0;
  double weight_ = 0;
};

}  // namespace ddprun::worker
