// The training loop without LibTorch, for tests: what it trains is a count of samples.
#pragma once

#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/training/loop_driver.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::tests {

// Remembers which samples it has seen: that is its model.
class counting_work final : public worker::loop_work {
 public:
  std::vector<std::string> calls;
  std::vector<std::size_t> seen;
  std::function<void(std::uint64_t step)> in_step, after_step;  // of all epochs
  std::function<void(std::uint64_t epoch, std::span<const worker::sample_span> passes)>
      in_epoch_begin;
  std::function<void(std::uint64_t epoch, worker::sample_span pass)> in_pass;
  std::function<void(std::uint64_t epoch)> in_epoch_end;
  std::function<bool(bool here)> any_of_all;  // none: this rank is alone
  bool is_stopped = false;                    // somewhere, at the next question
  std::set<std::thread::id> copied_on;        // what may be late
  std::function<void()> before_copy;          // of that
  std::string changed;                        // of that, meanwhile
  std::vector<std::size_t> looked;            // for that: how much was copied by then
  std::function<void()> before_look;
  std::atomic<std::size_t> copies = 0;
  std::string views;  // "late " or "whole " for each
  std::string not_put_back, broken_on_device;
  std::function<bool()> stop_has_come;
  std::function<void()> before_answer, before_view;

  worker::snapshot_state view(bool is_copied_late) override {
    views += is_copied_late ? "late " : "whole ";
    if (before_view) before_view();
    kept_.clear();
    for (const auto sample : seen)
      kept_ += std::to_string(sample) + " ";
    worker::snapshot_state state;
    state.replicated.tensors.push_back(bytes_tensor("model", kept_));
    state.own.tensors.push_back(bytes_tensor("generator", "of a rank"));
    state.replicated.tensors.push_back(bytes_tensor("optimizer", "12345678"));
    auto& late = state.replicated.tensors.back();
    late.may_be_late = true;
    late.copy = [this, bytes = late.bytes](char* to) {
      if (before_copy) before_copy();
      copied_on.insert(std::this_thread::get_id());
      bytes.copy(to, bytes.size());
      ++copies;
    };
    return state;
  }
  std::string changed_since_view() override {
    looked.push_back(copies);
    if (before_look) before_look();
    return changed;
  }
  void set_wait_until_copied(std::function<void()> wait) override { wait_ = std::move(wait); }
  void load(const worker::resumed_snapshot& from) override {
    std::istringstream words{std::string(from.replicated.find("model")->bytes)};
    seen.clear();
    for (std::size_t sample = 0; words >> sample;)
      seen.push_back(sample);
    calls.push_back("load");
  }
  bool is_alike(std::string_view) override { return false; }  // each rank has its own samples
  void warm_up(worker::sample_span pass) override {
    calls.push_back("warm up with " + std::to_string(pass.size()));
  }
  void begin_epoch(std::uint64_t epoch, std::uint64_t steps,
                   std::span<const worker::sample_span> passes) override {
    if (in_epoch_begin) in_epoch_begin(epoch, passes);
    calls.push_back("begin " + std::to_string(epoch) + " of " + std::to_string(steps));
  }
  void step(std::uint64_t epoch, std::uint64_t step,
            std::span<const worker::sample_span> passes) override {
    if (in_step) in_step(step);
    for (const auto& pass : passes) {
      if (in_pass) in_pass(epoch, pass);
      seen.insert(seen.end(), pass.begin(), pass.end());
    }
    if (wait_) wait_();
  }
  std::string put_back() override {
    calls.push_back("put back");
    return not_put_back;
  }
  void set_stop_has_come(std::function<bool()> has) override { stop_has_come = std::move(has); }
  void let_go() override { calls.push_back("let go"); }
  std::string end_device_work(std::chrono::milliseconds) override {
    calls.push_back("end device work");
    return broken_on_device;
  }
  void end_step(const worker::step_end& done) override {
    if (after_step) after_step(done.step);
  }
  void end_epoch(const worker::epoch_end& done) override {
    if (in_epoch_end) in_epoch_end(done.epoch);
    calls.push_back("end " + std::to_string(done.epoch) + " with " + std::to_string(done.samples));
  }
  worker::named_meters take_meters() override { return {}; }
  void average(worker::named_meters&) override {}
  void ask(const worker::loop_word& own) override {
    asked_ = {own.stop_has_come || is_stopped, own.save_is_due};
  }
  worker::loop_word answer() override {
    if (before_answer) before_answer();
    return asked_;
  }
  bool any(bool here) override { return any_of_all ? any_of_all(here) : here; }

 private:
  std::string kept_;
  worker::loop_word asked_;
  std::function<void()> wait_;
};

struct loop_under_test : job_under_test {
  const worker::stop_request stop;
  std::vector<std::string> told;  // by rank 0
  round_number round = 0;

  worker::training_loop_options looping() {
    worker::training_loop_options made;
    made.samples = 24;
    made.batch_size = 4;
    made.epochs = 3;
    made.shuffle = false;
    made.folder = folder;
    made.stop = &stop;
    made.shows_progress = false;
    made.tell = [this](std::string_view line) { told.emplace_back(line); };
    made.on_message = messages.handler();
    made.files = &disk;
    return made;
  }
  // The job, started once more. Empty: it has ended in order.
  std::string run(counting_work& work, const worker::training_loop_options& with) {
    worker::loop_driver loop(lone_rank(++round, instance), with, work);
    try {
      loop.run();
    } catch (const std::exception& error) {
      return error.what();
    }
    is_done = loop.is_done();
    status = loop.status();
    return "";
  }
  std::string saved(const std::string& name) const { return "snapshot saved at " + folder + name; }

  bool is_done = false;
  int status = -1;
};

inline std::vector<std::size_t> in_order(std::size_t epochs, std::size_t samples = 24) {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at < epochs * samples; ++at)
    all.push_back(at % samples);
  return all;
}

}  // namespace ddprun::tests
