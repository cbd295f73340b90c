// What a model's forward() may return, and the tensors in it: a tensor, or pairs, tuples, arrays,
// vectors, optionals and maps of such. A struct of the program's own says what it holds by a
// function beside it:
//
//   std::vector<at::Tensor> output_tensors(const Answer& answer) { return {answer.scores}; }
//
// Numbers and texts hold none; another type does not compile.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace ddprun::worker {

// Adds those that are defined.
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
  } else if constexpr (requires { output.key(), output.value(); }) {  // of torch::OrderedDict
    collect_tensors(output.value(), to);
  } else {
    static_assert(!sizeof(Output),
                  "forward() returns a type whose tensors are not known: write "
                  "std::vector<at::Tensor> output_tensors(const YourType&) beside it");
  }
}

}  // namespace ddprun::worker
