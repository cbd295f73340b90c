// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "worker/torch/training_state.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/kept_state.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <sstream>

namespace ddprun::tests {
namespace {

using worker::environment;
using worker::snapshots;
using worker::snapshots_options;
using worker::training_state;

struct NormalizingNetImpl : torch::nn::Module {
  explicit NormalizingNetImpl(std::int64_t width = 8)
      : first(register_module("first", torch::nn::Linear(4, width))),
        normal(register_module("normal", torch::nn::BatchNorm1d(width))),
        second(register_module("second", torch::nn::Linear(width, 3))) {}
  torch::Tensor forward(torch::Tensor values) {
    return second->forward(torch::relu(normal->forward(first->forward(values))));
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d normal;
  torch::nn::Linear second;
};
TORCH_MODULE(NormalizingNet);

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> made(NormalizingNet& net, Options options) {
  return std::make_unique<Optimizer>(net->parameters(), options);
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const std::string& kind,
                                                      NormalizingNet& net) {
  namespace optim = torch::optim;
  if (kind == "adam") return made<optim::Adam>(net, optim::AdamOptions(0.01));
  if (kind == "amsgrad") return made<optim::Adam>(net, optim::AdamOptions(0.01).amsgrad(true));
  if (kind == "adamw") return made<optim::AdamW>(net, optim::AdamWOptions(0.01));
  if (kind == "momentum") return made<optim::SGD>(net, optim::SGDOptions(0.01).momentum(0.9));
  if (kind == "sgd") return made<optim::SGD>(net, optim::SGDOptions(0.01));
  if (kind == "rmsprop") {
    return made<optim::RMSprop>(net, optim::RMSpropOptions(0.01).centered(true).momentum(0.5));
  }
  REQUIRE(kind == "adagrad");
  return made<optim::Adagrad>(net, optim::AdagradOptions(0.01));
}

// Draws its data from the process's own generator.
void step(NormalizingNet& net, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  net->forward(torch::randn({6, 4})).pow(2).sum().backward();
  optimizer.step();
}

std::unique_ptr<snapshots> open(const environment& here, const std::string& folder) {
  snapshots_options options;
  options.folder = folder;
  std::string problem;
  auto opened = snapshots::open(here, options, problem);
  if (!opened) throw std::runtime_error(problem);
  return std::move(*opened);
}

void save_training(snapshots& to, std::uint64_t at, NormalizingNet& net,
                   torch::optim::Optimizer& optimizer) {
  if (to.save(at, 0, training_state(*net, optimizer).view()) || to.wait()) {
    throw std::runtime_error(to.problem());
  }
}

bool equal(NormalizingNet& one, NormalizingNet& two) {
  const auto mine = one->named_parameters();
  for (const auto& each : two->named_parameters()) {
    if (!torch::equal(mine[each.key()], each.value())) return false;
  }
  const auto buffers = one->named_buffers();
  for (const auto& each : two->named_buffers()) {
    if (!torch::equal(buffers[each.key()], each.value())) return false;
  }
  return true;
}

std::string text_of_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("training resumes from a snapshot bit by bit, with each optimizer", "[torch]") {
  const std::string kind =
      GENERATE("adam", "amsgrad", "adamw", "momentum", "sgd", "rmsprop", "adagrad");
  const tests::temporary_folder place;
  const auto said = run_ranks(2, [&](const environment& here) -> std::string {
    torch::set_num_threads(1);
    torch::manual_seed(7 + here.rank);  // ranks differ, and so must their generators
    NormalizingNet one;
    auto one_optimizer = optimizer_of(kind, one);
    one_optimizer->param_groups()[0].options().set_lr(0.003);
    {
      auto kept = open(here, place.path);
      step(one, *one_optimizer);
      step(one, *one_optimizer);
      // All ranks have rank 0's model, but generators of their own.
      if (here.rank == 1) torch::manual_seed(99);
      save_training(*kept, 2, one, *one_optimizer);
      kept->close();
    }
    auto kept_again = here;
    kept_again.round = 2;
    auto kept = open(kept_again, place.path);
    if (!kept->resumed()) return "nothing resumed";
    const auto expected = torch::randn({3});
    NormalizingNet two;
    auto two_optimizer = optimizer_of(kind, two);
    training_state(*two, *two_optimizer).load(*kept->resumed());
    const bool goes_on = torch::equal(torch::randn({3}), expected);
    std::ostringstream text;
    text << "generator " << goes_on << ", rate "
         << two_optimizer->param_groups()[0].options().get_lr();
    if (here.rank == 0) {
      torch::manual_seed(5);
      step(one, *one_optimizer);
      torch::manual_seed(5);
      step(two, *two_optimizer);
      text << ", equal " << equal(one, two);
    }
    return text.str();
  });
  INFO(kind);
  REQUIRE(said[0] == "generator 1, rate 0.003, equal 1");
  REQUIRE(said[1] == "generator 1, rate 0.003");
}

// The averages of BatchNorm, also those of a module that the program keeps.
TEST_CASE("buffers are rank 0's: it writes them, and all ranks resume with them", "[torch]") {
  const tests::temporary_folder place;
  const auto said = run_ranks(2, [&](const environment& here) -> std::string {
    torch::set_num_threads(1);
    torch::manual_seed(7);
    NormalizingNet one, teacher;
    auto one_optimizer = optimizer_of("adam", one);
    step(one, *one_optimizer);
    // From here on the ranks have the same parameters, but see other batches.
    torch::manual_seed(100 + here.rank);
    {
      const torch::NoGradGuard no_grad;
      one->forward(torch::randn({6, 4}));
      teacher->forward(torch::randn({6, 4}));
    }
    worker::kept_state kept;
    kept.add("teacher", *teacher);
    auto state = training_state(*one, *one_optimizer).view();
    kept.add_to(state.replicated);
    for (const auto& tensor : state.replicated.tensors) {
      const bool is_buffer = tensor.name.find(".normal.running_") != std::string::npos ||
                             tensor.name.ends_with(".normal.num_batches_tracked");
      if (tensor.is_rank_0s != is_buffer) return "'" + tensor.name + "' is marked wrongly";
    }
    snapshots_options options;
    options.folder = place.path;
    options.writers = 2;
    std::string problem;
    {
      auto opened = snapshots::open(here, options, problem);
      if (!opened) return problem;
      if ((*opened)->save(1, 0, state) || (*opened)->close()) return (*opened)->problem();
    }
    auto again = here;
    again.round = 2;
    auto opened = snapshots::open(again, options, problem);
    if (!opened) return problem;
    NormalizingNet found, found_teacher;
    auto found_optimizer = optimizer_of("adam", found);
    worker::kept_state kept_there;
    kept_there.add("teacher", *found_teacher);
    const auto& from = *(*opened)->resumed();
    training_state(*found, *found_optimizer).load(from);
    kept_there.load(from.replicated, from.path);
    // Rank 0's, to the last bit: its generator is seeded with 100.
    std::ostringstream text;
    text << "as before " << equal(found, one) << equal(found_teacher, teacher) << ", averages"
         << std::hexfloat;
    for (auto* const net : {&found, &found_teacher}) {
      for (const auto& each : (*net)->buffers())
        text << " " << each.to(torch::kDouble).sum().item<double>();
    }
    return text.str();
  });
  INFO(said[0] << "\n" << said[1]);
  REQUIRE(said[0].starts_with("as before 11, averages "));
  REQUIRE(said[1].starts_with("as before 00, averages "));
  REQUIRE(said[0].substr(said[0].find(',')) == said[1].substr(said[1].find(',')));
}

TEST_CASE("what a forward pass changes is copied before, all else before the step", "[torch]") {
  const std::string kind = GENERATE("amsgrad", "momentum", "rmsprop");
  const tests::temporary_folder place;
  const auto said = run_ranks(1, [&](const environment& here) -> std::string {
    NormalizingNet one(4096), left(4096), found(4096);
    auto one_optimizer = optimizer_of(kind, one);
    step(one, *one_optimizer);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t at = 0; at < one->parameters().size(); ++at)
        left->parameters()[at].copy_(one->parameters()[at]);
      for (std::size_t at = 0; at < one->buffers().size(); ++at)
        left->buffers()[at].copy_(one->buffers()[at]);
    }
    const auto sum_of = [&](NormalizingNet& net, torch::optim::Optimizer& optimizer) {
      double sum = 0;
      for (const auto& tensor : training_state(*net, optimizer).view().replicated.tensors) {
        if (tensor.name.starts_with("optimizer.")) {
          sum += worker::tensor_of(tensor).to(torch::kDouble).sum().item<double>();
        }
      }
      return sum;
    };
    const double left_by_optimizer = sum_of(one, *one_optimizer);
    {
      auto kept = open(here, place.path);
      const training_state training(*one, *one_optimizer);
      if (kept->begin_save(1, 0, training.view())) return kept->problem();
      one_optimizer->zero_grad();
      one->forward(torch::randn({6, 4})).pow(2).sum().backward();
      kept->wait_until_copied();
      one_optimizer->step();
      if (kept->close()) return kept->problem();
    }
    auto again = here;
    again.round = 2;
    auto kept = open(again, place.path);
    auto found_optimizer = optimizer_of(kind, found);
    training_state(*found, *found_optimizer).load(*kept->resumed());
    const bool is_same = equal(found, left) && !equal(found, one) &&
                         sum_of(found, *found_optimizer) == left_by_optimizer;
    return is_same ? "the same" : "differs";
  });
  REQUIRE(said[0] == "the same");
}

TEST_CASE("a snapshot of another model is refused, and the differences are named", "[torch]") {
  const tests::temporary_folder place;
  const auto said = run_ranks(1, [&](const environment& here) -> std::string {
    NormalizingNet net;
    auto adam = optimizer_of("adam", net);
    step(net, *adam);
    save_training(*open(here, place.path), 1, net, *adam);
    auto next = here;
    next.round = 2;
    const auto kept = open(next, place.path);
    const auto load = [&](NormalizingNet into, const std::string& kind) {
      auto optimizer = optimizer_of(kind, into);
      const auto before = into->parameters()[0].clone();
      const std::string text =
          text_of_error([&] { training_state(*into, *optimizer).load(*kept->resumed()); });
      return text + (torch::equal(before, into->parameters()[0]) ? "" : " (and it was changed)");
    };
    NormalizingNet more;
    more->register_parameter("extra", torch::zeros({2, 5}));
    std::string all = load(NormalizingNet(9), "adam") + "\n" + load(more, "adam") + "\n";
    all += load(NormalizingNet(), "momentum") + "\n" + load(NormalizingNet(), "adagrad") + "\n";
    NormalizingNet wide;
    auto lbfgs = torch::optim::LBFGS(wide->parameters());
    return all + text_of_error([&] { training_state(*wide, lbfgs); });
  });
  const std::string start =
      "snapshot " + place.path + "/snapshot-000001-000001 is of another model or optimizer: ";
  INFO(said[0]);
  REQUIRE(said[0].starts_with(
      start +
      "'model.first.weight' is F32 [8, 4] there and F32 [9, 4] here; 'model.first.bias' is F32 [8] "
      "there and F32 [9] here; 'model.normal.weight' is F32 [8] there and F32 [9] here; "
      "'model.normal.bias' is F32 [8] there and F32 [9] here; 'model.second.weight' is F32 [3, 8] "
      "there and F32 [3, 9] here; and "));
  REQUIRE(said[0].find(start + "it has no 'model.extra', F32 [2, 5] here") != std::string::npos);
  REQUIRE(said[0].find("it has 'optimizer.state.0.exp_avg', F32 [8, 4], which the program does not "
                       "have") != std::string::npos);
  REQUIRE(said[0].find("it has no 'optimizer.state.0.sum', F32 [8, 4] here") != std::string::npos);
  REQUIRE(said[0].find("the state of this optimizer cannot be saved") != std::string::npos);
  REQUIRE(said[0].find("and it was changed") == std::string::npos);
}

TEST_CASE("tensors that are not contiguous are saved correctly", "[torch]") {
  const auto said = run_ranks(1, [&](const environment&) -> std::string {
    auto tensor = torch::arange(12, torch::kDouble).reshape({3, 4}).t();
    const auto before = tensor.clone();
    const auto view = worker::view_of("t", tensor);
    tensor.set_data(torch::zeros({4, 3}, torch::kDouble));  // as a program may before a late copy
    std::string bytes(before.nbytes(), ' ');
    view.copy(bytes.data());
    worker::tensor_view read = view;
    read.bytes = bytes;
    const auto complex =
        text_of_error([] { (void)worker::view_of("c", torch::zeros({2}, torch::kComplexDouble)); });
    return std::to_string(torch::equal(worker::tensor_of(read), before)) + " " + complex;
  });
  REQUIRE(said[0] == "1 'c' is of type ComplexDouble, which snapshots do not support");
}

TEST_CASE("ranks agree on a stop that one of them has seen", "[torch]") {
  const auto said = run_ranks(3, [](const environment& here) -> std::string {
    auto group = worker::process_group::join(here);
    return std::to_string(group.any(false)) + std::to_string(group.any(here.rank == 1));
  });
  for (const auto& each : said)
    REQUIRE(each == "01");
}

}  // namespace ddprun::tests
