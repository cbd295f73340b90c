// Collects the tensors in what a model's forward() returns: a tensor, or pairs, tuples, arrays,
// vectors, optionals and maps of such. For a struct of its own the program provides a function that
// lists its tensors:
//
//   std::vector<at::Tensor> output_tensors(const Answer& answer) { return {answer.scores}; }
//
// Numbers and texts contain no tensors; other types do not compile.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace ddprun::worker {

// Appends the tensors that are defined.
template <typename Output>
void collect_tensors(const Output& output, std::vector<at::Tensor>& to) {
  if constexpr (std::is_convertible_v<const Output&, const at::Tensor&>) {
    const at::Tensor& tensor = output;
    if (tensor.defined()) to.push_back(tensor);
  } else if constexpr (std::is_arithmetic_v<Output> || std::is_enum_v<Output> ||
                       std::is_convertible_v<const Output&, std::string_view>) {
    return;
  } else if constexpr (requires { output_tensors(output); }) {
    for (const at::Tensor& tensor : output_tensors(output))
      collect_tensors(tensor, to);
  } else if constexpr (requires { output.has_value(); }) {
    if (output.has_value()) collect_tensors(*output, to);
  } else if constexpr (requires { std::tuple_size<Output>::value; }) {
    std::apply([&](const auto&... each) { (collect_tensors(each, to), ...); }, output);
  } else if constexpr (requires { output.begin() != output.end(); }) {
    for (const auto& each : output)
      collect_tensors(each, to);
  } else if constexpr (requires { output.key(), output.value(); }) {  // torch::OrderedDict's
    collect_tensors(output.value(), to);
  } else {
    static_assert(!sizeof(Output),
                  "forward() returns a type whose tensors are not known: write "
                  "std::vector<at::Tensor> output_tensors(const YourType&) beside it");
  }
}

}  // namespace ddprun::worker
