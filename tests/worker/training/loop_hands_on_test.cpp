// If the ranks are on several nodes, the loop lets them read each file of a snapshot only once.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/broadcast_of_threads.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/training/loop_driver.hpp"

#include <exception>
#include <string>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

// Its model is a count of steps.
class step_counter final : public loop_work {
 public:
  explicit step_counter(byte_broadcast to_all) : to_all_(std::move(to_all)) {}
  std::string resumed;  // the model that it has loaded
  bool was_handed_on = false;

  snapshot_state view(bool) override {
    model_ = "model after " + std::to_string(steps_) + " steps";
    snapshot_state state;
    state.replicated.tensors.push_back(bytes_tensor("model", model_));
    return state;
  }
  void load(const resumed_snapshot& from) override {
    const auto& model = *from.replicated.find("model");
    was_handed_on = static_cast<bool>(model.copy);
    resumed = model.bytes;
    if (!was_handed_on) return;
    resumed.resize(bytes_of(model).value());
    model.copy(resumed.data());
  }
  byte_broadcast broadcast() override { return to_all_; }
  bool is_alike(std::string_view) override { return true; }
  void warm_up(sample_span) override {}
  void begin_epoch(std::uint64_t, std::uint64_t, std::span<const sample_span>) override {}
  void step(std::uint64_t, std::uint64_t step, std::span<const sample_span>) override {
    steps_ = step;
  }
  std::string put_back() override { return ""; }
  void let_go() override {}
  void end_step(const step_end&) override {}
  void end_epoch(const epoch_end&) override {}
  named_meters take_meters() override { return {}; }
  void average(named_meters&) override {}
  void ask(const loop_word& own) override { asked_ = own; }
  loop_word answer() override { return asked_; }
  bool any(bool here) override { return here; }

 private:
  byte_broadcast to_all_;
  std::string model_;
  std::uint64_t steps_ = 0;
  loop_word asked_;
};

}  // namespace

TEST_CASE("ranks of several nodes resume by what one has read, those of one do not", "[training]") {
  constexpr std::uint32_t world_size = 2;
  const std::uint32_t nodes = GENERATE(1u, 2u);
  job_under_test test;
  const stop_request stop;
  for (const round_number round : {1, 2}) {
    broadcast_of_threads between(world_size);
    std::vector<std::string> wrong(world_size);
    job_under_test::on_all(world_size, [&](std::uint32_t rank) {
      environment here = lone_rank(round, test.instance);
      here.rank = rank;
      here.world_size = world_size;
      here.group_world_size = nodes;
      here.master_address = "127.0.0.1";
      here.master_port = test.store.port();
      training_loop_options with;
      with.samples = 8;
      with.epochs = round;
      with.folder = test.folder;
      with.stop = &stop;
      with.shows_progress = false;
      with.tell = [](std::string_view) {};
      with.on_message = test.messages.handler();
      step_counter work(between.of(rank));
      try {
        loop_driver(here, with, work).run();
      } catch (const std::exception& error) {
        wrong[rank] = error.what();
      }
      if (round == 1) return;
      if (work.resumed != "model after 4 steps") wrong[rank] += "; resumed '" + work.resumed + "'";
      if (work.was_handed_on != (nodes > 1)) wrong[rank] += "; read in another way";
    });
    CHECK(wrong == std::vector<std::string>(world_size));
    CHECK((between.bytes() != 0) == (round == 2 && nodes > 1));
  }
  CHECK(test.messages.text() == "");
}

}  // namespace ddprun::tests
