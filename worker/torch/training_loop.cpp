#include "worker/torch/training_loop.hpp"

#include "rendezvous/base/time.hpp"
#include "worker/deadline.hpp"
#include "worker/torch/gpu_event.hpp"
#include "worker/torch/handed_bytes.hpp"
#include "worker/torch/kept_state.hpp"
#include "worker/torch/metrics.hpp"
#include "worker/torch/mixed_precision.hpp"
#include "worker/torch/tensors_in_copy.hpp"
#include "worker/torch/training_state.hpp"
#include "worker/torch/unfinished_changes.hpp"
#include "worker/training/device_watch.hpp"

#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

const std::string prefix_of_model = "model.";
constexpr std::chrono::seconds rest_limit{1};  // of a GPU that waits for no other rank
constexpr const char* averaging = "averaging the gradients on the GPU";

}  // namespace

at::Tensor training_batch::tensor() const {
  return torch::tensor(std::vector<std::int64_t>(indices_.begin(), indices_.end()), at::kLong);
}

class training_loop::work final : public loop_work {
 public:
  work(distributed_data_parallel& parallel, torch::optim::Optimizer& optimizer,
       const training_loop_options& options)
      : parallel_(parallel),
        optimizer_(optimizer),
        options_(options),
        training_(parallel.module(), optimizer),
        unfinished_(parallel.module(), optimizer, kept_),
        gpus_(parallel.group().gpus()) {
    if (!gpus_.empty() && !parallel.group().has_watchdog()) {
      watch_.emplace(parallel.group().gpu_timeout(), [this] { return stop_has_come_(); });
    }
    if (options.computes_in == compute_type::fp16) {
      scaler_.emplace(device());
      kept_.add("scaler.scale", scaler_->scale());
      kept_.add("scaler.good_steps", scaler_->good_steps());
    }
  }

  snapshot_state view(bool is_copied_late) override {
    auto state = training_.view();
    kept_.add_to(state.replicated);
    if (is_copied_late) remember_what_is_late();
    return state;
  }
  std::string changed_since_view() override {
    auto changed = copied_.changed();
    copied_.clear();
    return changed;
  }
  void load(const resumed_snapshot& from) override {
    training_.load(from);
    kept_.load(from.replicated, from.path);
  }
  void set_wait_until_copied(std::function<void()> wait) override {
    wait_until_copied_ = std::move(wait);
  }
  // Each rank's BatchNorm has the averages of its own samples.
  bool is_alike(std::string_view tensor) override {
    if (!buffers_) buffers_ = names_of_buffers();
    return !buffers_->contains(tensor);
  }

  void warm_up(sample_span pass) override {
    parallel_.module().train();
    if (!options_.warms_up) return;
    const training_batch::report_handler nothing = [](std::string_view, const at::Tensor&) {};
    unfinished_.begin_step();
    parallel_.warm_up([&] {
      training_batch batch(1, 1, pass, nothing);
      return loss_of(batch);
    });
    (void)unfinished_.put_back();  // parameters that the loss itself changes stay so
  }
  void begin_epoch(std::uint64_t epoch, std::uint64_t steps,
                   std::span<const sample_span> passes) override {
    parallel_.module().train();
    for (auto* const each : loaders_)
      each->begin(epoch, passes);
    if (!on_epoch_begin) return;
    wait_until_copied();
    on_epoch_begin(epoch, steps);
  }
  void step(std::uint64_t epoch, std::uint64_t step, std::span<const sample_span> passes) override {
    if (may_be_put_back()) unfinished_.begin_step();
    if (!watch_) return make_step(epoch, step, passes);
    // What on_step has given the GPU, and the copies above, may wait for a lost rank as well.
    watch_->end_step(gpu_event::record(gpus_));
    const auto& group = parallel_.group();
    watch_->begin_step(step, {group.sign_of_loss(), say_abort_, group.abort_on_gpus()});
    is_in_step_ = true;
    try {
      make_step(epoch, step, passes);
    } catch (const process_group_error&) {
      leave_step();
      throw;
    } catch (const c10::Error&) {
      leave_step();
      throw;
    } catch (...) {
      watch_->leave_step();
      throw;
    }
    watch_->end_step(gpu_event::record(gpus_));
    is_in_step_ = false;
  }
  void set_stop_has_come(std::function<bool()> stop_has_come) override {
    stop_has_come_ = std::move(stop_has_come);
  }
  void set_say_abort(std::function<std::string(std::uint64_t)> say_abort) override {
    say_abort_ = std::move(say_abort);
  }
  std::string put_back() override {
    const auto changed = unfinished_.put_back();
    return is_half_updated_ ? "the parameters" : changed;
  }
  void let_go() override { parallel_.group().let_go(); }
  std::string end_device_work(std::chrono::milliseconds within) override {
    if (gpus_.empty()) return "";
    if (!watch_) return why_not_at_rest();
    const deadline until(within);
    if (!is_in_step_) watch_->end_step(gpu_event::record(gpus_));
    if (auto why = watch_->end(within); !why.empty()) return why;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until.left());
    if (!wait_until_done(*gpu_event::record(gpus_), left)) {
      return "the GPU still works " + ddprun::to_text(within) + " later";
    }
    return "";
  }
  void end_step(const step_end& done) override {
    if (on_step) on_step(done);
  }
  void end_epoch(const epoch_end& done) override {
    if (may_be_put_back()) unfinished_.begin_epoch_end();
    if (on_epoch_end) on_epoch_end(done);
  }

  named_meters take_meters() override {
    named_meters taken;
    for (const auto& each : meters_) {
      if (each.weight == 0) continue;
      taken.emplace_back(each.name, meter());
      taken.back().second.set(each.sum.item<double>(), each.weight);
    }
    meters_ = {{"loss", {}, 0}};
    return taken;
  }
  void average(named_meters& meters) override {
    std::vector<meter*> all;
    for (auto& [name, value] : meters)
      all.push_back(&value);
    if (!all.empty()) average_over_ranks(parallel_.group(), std::span<meter* const>(all));
  }
  void ask(const loop_word& own) override {
    parallel_.group().ask({own.stop_has_come, own.save_is_due});
  }
  loop_word answer() override {
    const auto said = parallel_.group().answer();
    return {said[0], said[1]};
  }
  byte_broadcast broadcast() override { return broadcast_over(parallel_.group(), device()); }
  bool any(bool here) override { return parallel_.group().any(here); }

  kept_state& kept() { return kept_; }
  void load_ahead(batch_queue& loader) { loaders_.push_back(&loader); }
  void keep(const std::string& name, exponential_moving_average& average) {
    kept_.add(name, average);
    averages_.push_back(&average);
  }
  double gradient_norm() const { return gradient_norm_; }
  void set_loss(const loss_function& loss) { loss_ = loss; }

  std::function<void(std::uint64_t, std::uint64_t)> on_epoch_begin;
  std::function<void(std::uint64_t)> on_update;
  std::function<void(const step_end&)> on_step;
  std::function<void(const epoch_end&)> on_epoch_end;

 private:
  // A meter whose values lie where they were computed.
  struct tensor_meter {
    std::string name;
    at::Tensor sum;
    double weight = 0;

    void add(const at::Tensor& value, double samples) {
      const auto here = value.detach().to(at::kDouble) * samples;
      if (weight == 0) {
        sum = here;
      } else {
        sum.add_(here);
      }
      weight += samples;
    }
  };

  // For an emergency snapshot.
  bool may_be_put_back() const {
    return !options_.folder.empty() && options_.emergency_grace.count() != 0;
  }
  std::set<std::string, std::less<>> names_of_buffers() const {
    std::set<std::string, std::less<>> names;
    for (const auto& each : parallel_.module().named_buffers())
      names.insert(prefix_of_model + each.key());
    for (const auto& each : kept_.tensors()) {
      if (each.is_buffer) names.insert(each.name);
    }
    return names;
  }
  // All passes of a step but the last one only add to this rank's gradients.
  void run_pass(training_batch batch, bool is_last) {
    std::optional<distributed_data_parallel::no_sync_scope> here_only;
    if (!is_last) here_only.emplace(parallel_);
    samples_ = static_cast<double>(batch.size());
    const auto loss = loss_of(batch);
    const auto passes = static_cast<double>(options_.passes_per_step);
    const auto share = options_.passes_per_step == 1 ? loss : loss / passes;
    parallel_.backward(scaler_ ? scaler_->scale_up(share) : share);
    report("loss", loss);
  }
  at::Device device() const { return parallel_.module().parameters().front().device(); }
  at::Tensor loss_of(training_batch& batch) {
    if (options_.computes_in == compute_type::full) return loss_(batch);
    const bool is_half = options_.computes_in == compute_type::fp16;
    const autocast_scope casting(device().type(), is_half ? at::kHalf : at::kBFloat16);
    return loss_(batch);
  }
  void remember_what_is_late() {
    copied_.clear();
    for (const auto& [name, tensor] : training_.late_tensors()) {
      const bool is_of_model = name.starts_with(prefix_of_model);
      copied_.add(is_of_model ? "parameter '" + name.substr(prefix_of_model.size()) + "'"
                              : "'" + name + "'",
                  tensor);
    }
    for (const auto& each : kept_.tensors()) {
      if (each.is_average) copied_.add("'" + each.name + "'", each.tensor);
    }
  }
  // LibTorch's watchdog may abort what waits, and nothing waits for gradients: so the state is only
  // known where the GPU has done all that it was given, before an error is known.
  std::string why_not_at_rest() const {
    const bool is_done = wait_until_done(*gpu_event::record(gpus_), rest_limit);
    if (is_done && parallel_.group().error_on_gpus().empty()) return "";
    return "the GPU waits for the rank that is gone, and has not done all of that step; set "
           "watchdog = false in the options of the process group to have one all the same";
  }
  // An abort ends the calls to NCCL that it meets, with texts that say nothing of the lost rank.
  void leave_step() {
    watch_->leave_step();
    if (const auto why = watch_->lost(); !why.empty()) parallel_.group().throw_lost(averaging, why);
  }
  // On a GPU they are averaged after backward() has returned, or never. An optimizer that steps
  // before that would use half of them if a rank is lost.
  void wait_for_gradients() {
    if (!watch_) return;
    const auto why = watch_->wait_for(*gpu_event::record(gpus_));
    if (!why.empty()) parallel_.group().throw_lost(averaging, why);
  }
  void wait_until_copied() {
    if (!wait_until_copied_) return;
    wait_until_copied_();
    copied_.clear();
  }
  void make_step(std::uint64_t epoch, std::uint64_t step, std::span<const sample_span> passes) {
    parallel_.zero_grad();
    for (const auto& pass : passes)
      run_pass({epoch, step, pass, report_}, &pass == &passes.back());
    wait_for_gradients();
    update(step);
    is_half_updated_ = false;
  }
  void update(std::uint64_t step) {
    // All ranks have the same gradients, and so leave the same steps out.
    const bool is_sound = !scaler_ || scaler_->scale_down(parallel_.module().parameters());
    if (is_sound && options_.clip_norm > 0) {
      gradient_norm_ =
          torch::nn::utils::clip_grad_norm_(parallel_.module().parameters(), options_.clip_norm);
    }
    if (options_.learning_rate) {
      for (auto& group : optimizer_.param_groups())
        group.options().set_lr(options_.learning_rate(step));
    }
    wait_until_copied();
    if (is_sound) {
      is_half_updated_ = true;
      optimizer_.step();
      for (auto* const each : averages_)
        each->update();
    }
    if (scaler_) scaler_->update();
    if (on_update) on_update(step);
  }
  void report(std::string_view name, const at::Tensor& value) {
    auto found = std::find_if(meters_.begin(), meters_.end(),
                              [&](const tensor_meter& each) { return each.name == name; });
    if (found == meters_.end()) {
      meters_.push_back({std::string(name), {}, 0});
      found = meters_.end() - 1;
    }
    found->add(value, samples_);
  }

  distributed_data_parallel& parallel_;
  torch::optim::Optimizer& optimizer_;
  training_loop_options options_;
  training_state training_;
  kept_state kept_;
  unfinished_changes unfinished_;
  std::vector<c10::Device> gpus_;
  std::optional<gradient_scaler> scaler_;
  std::vector<exponential_moving_average*> averages_;
  std::vector<batch_queue*> loaders_;
  loss_function loss_;
  tensors_in_copy copied_;
  std::function<void()> wait_until_copied_;                    // none: nothing is kept
  std::optional<std::set<std::string, std::less<>>> buffers_;  // by names in snapshots; once asked
  std::vector<tensor_meter> meters_{{"loss", {}, 0}};
  double samples_ = 0;  // of the pass under way
  double gradient_norm_ = 0;
  bool is_half_updated_ = false;  // LibTorch's optimizers write past its version counter
  training_batch::report_handler report_ = [this](std::string_view name, const at::Tensor& value) {
    report(name, value);
  };
  std::function<bool()> stop_has_come_ = [] { return false; };
  std::function<std::string(std::uint64_t)> say_abort_;  // none: nothing is saved
  std::optional<device_watch> watch_;  // only on GPUs, without LibTorch's watchdog
  bool is_in_step_ = false;            // from there until it is finished; where there is a watch
};

training_loop::training_loop(distributed_data_parallel& parallel,
                             torch::optim::Optimizer& optimizer, training_loop_options options)
    : work_(std::make_unique<work>(parallel, optimizer, options)),
      driver_(std::make_unique<loop_driver>(parallel.group().here(), std::move(options), *work_)) {}

training_loop::~training_loop() = default;

void training_loop::keep(const std::string& name, at::Tensor& tensor) {
  work_->kept().add(name, tensor);
}

void training_loop::keep(const std::string& name, torch::nn::Module& module) {
  work_->kept().add(name, module);
}

void training_loop::keep(const std::string& name, exponential_moving_average& average) {
  work_->keep(name, average);
}

void training_loop::keep(const std::string& name, torch::optim::LRScheduler& scheduler) {
  work_->kept().add(name, scheduler);
}

void training_loop::keep(const std::string& name, std::function<std::string()> to_text,
                         std::function<void(const std::string&)> from_text) {
  work_->kept().add(name, std::move(to_text), std::move(from_text));
}

void training_loop::load_ahead(batch_queue& loader) {
  work_->load_ahead(loader);
}

void training_loop::on_epoch_begin(std::function<void(std::uint64_t, std::uint64_t)> work) {
  work_->on_epoch_begin = std::move(work);
}

void training_loop::on_update(std::function<void(std::uint64_t)> work) {
  work_->on_update = std::move(work);
}

void training_loop::on_step(std::function<void(const step_end&)> work) {
  work_->on_step = std::move(work);
}

void training_loop::on_epoch_end(std::function<void(const epoch_end&)> work) {
  work_->on_epoch_end = std::move(work);
}

void training_loop::run(const loss_function& loss) {
  work_->set_loss(loss);
  driver_->run();
}

bool training_loop::is_done() const {
  return driver_->is_done();
}

int training_loop::status() const {
  return driver_->status();
}

double training_loop::gradient_norm() const {
  return work_->gradient_norm();
}

}  // namespace ddprun::worker
