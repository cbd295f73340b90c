// A meter is a running average: of a loss over the samples, of the seconds that a step takes.
//
// Averaged over the ranks by torch/metrics.
#pragma once

namespace ddprun::worker {

class meter {
 public:
  // `weight` is how many the value is the average of: the samples of a batch. Not below 0.
  void add(double value, double weight = 1) {
    last_ = value;
    if (weight == 0) return;  // a batch of none has no value
    sum_ += value * weight;
    weight_ += weight;
  }
  double last() const { return last_; }
  double sum() const { return sum_; }
  double weight() const { return weight_; }
  // 0 before the first value.
  double average() const { return weight_ == 0 ? 0 : sum_ / weight_; }
  void reset() { *this = {}; }
  // Takes those of other ranks in.
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
