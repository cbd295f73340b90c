// A job whose state is a function of its step and rank, so that a snapshot's content can be
// checked.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "tests/support/catch.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

inline worker::tensor_view bytes_tensor(std::string name, std::string_view bytes) {
  worker::tensor_view tensor;
  tensor.name = std::move(name);
  tensor.shape = {bytes.size()};
  tensor.bytes = bytes;
  return tensor;
}

// The state of one rank: "model" and "optimizer" are equal on all ranks, "generator" is its own.
class small_state {
 public:
  explicit small_state(std::uint64_t step, std::uint32_t rank = 0, std::size_t bytes = 200)
      : model_(std::string(bytes + step % 97, static_cast<char>('a' + step % 26)) + "of step " +
               std::to_string(step)),
        optimizer_("moments of step " + std::to_string(step)),
        generator_("rank " + std::to_string(rank) + " at step " + std::to_string(step)),
        step_(step) {}

  worker::snapshot_state view() const {
    worker::snapshot_state state;
    state.replicated.values["step"] = std::to_string(step_);
    state.replicated.tensors.push_back(bytes_tensor("model", model_));
    state.replicated.tensors.push_back(bytes_tensor("optimizer", optimizer_));
    state.own.tensors.push_back(bytes_tensor("generator", generator_));
    return state;
  }
  const std::string& model() const { return model_; }

  // Returns an empty text, or what is wrong.
  std::string compare(const worker::resumed_snapshot& found) const {
    const auto* const model = found.replicated.find("model");
    if (model == nullptr || model->bytes != model_) return "another model";
    const auto* const optimizer = found.replicated.find("optimizer");
    if (optimizer == nullptr || optimizer->bytes != optimizer_) return "another optimizer";
    const auto step = found.replicated.values.find("step");
    if (step == found.replicated.values.end() || step->second != std::to_string(step_)) {
      return "another step";
    }
    if (!found.own) return "";
    const auto* const generator = found.own->find("generator");
    return generator == nullptr || generator->bytes != generator_ ? "another generator" : "";
  }

 private:
  std::string model_;
  std::string optimizer_;
  std::string generator_;
  std::uint64_t step_;
};

inline worker::environment lone_rank(round_number round, instance_id instance = 77) {
  worker::environment here;
  here.instance = instance;
  here.round = round;
  here.restart_count = static_cast<std::uint32_t>(round - 1);  // each round ends by a failure
  return here;
}

// Collects messages, which come from several threads.
class message_list {
 public:
  worker::message_handler handler() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::string last() const {
    const auto lines = all();
    return lines.empty() ? "" : lines.back();
  }
  std::string text() const {
    std::string text;
    for (const auto& line : all())
      text += line + "\n";
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

using open_snapshots = std::unique_ptr<worker::snapshots>;

inline error_code save(const open_snapshots& to, std::uint64_t step) {
  if (auto error = to->save(step, step / 10, small_state(step).view())) return error;
  return to->wait();
}

}  // namespace ddprun::tests
