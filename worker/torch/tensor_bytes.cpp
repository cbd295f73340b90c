#include "worker/torch/tensor_bytes.hpp"

#include "worker/torch/pinned_staging.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr std::array<std::pair<element_type, at::ScalarType>, 16> types{{
    {element_type::boolean, at::kBool},
    {element_type::u8, at::kByte},
    {element_type::i8, at::kChar},
    {element_type::f8_e5m2, at::kFloat8_e5m2},
    {element_type::f8_e4m3, at::kFloat8_e4m3fn},
    {element_type::i16, at::kShort},
    {element_type::u16, at::kUInt16},
    {element_type::f16, at::kHalf},
    {element_type::bf16, at::kBFloat16},
    {element_type::i32, at::kInt},
    {element_type::u32, at::kUInt32},
    {element_type::f32, at::kFloat},
    {element_type::f64, at::kDouble},
    {element_type::i64, at::kLong},
    {element_type::u64, at::kUInt64},
    {element_type::c64, at::kComplexFloat},
}};

element_type type_of(const std::string& name, const at::Tensor& tensor) {
  for (const auto& [ours, theirs] : types) {
    if (theirs == tensor.scalar_type()) return ours;
  }
  throw training_state_error("'" + name + "' is of type " + c10::toString(tensor.scalar_type()) +
                             ", which snapshots do not support");
}

// Blocks until the bytes have arrived, as this memory is not pinned.
void fetch(const at::Tensor& tensor, char* to) {
  at::from_blob(to, tensor.sizes(), tensor.options().device(at::kCPU)).copy_(tensor);
}

at::ScalarType scalar_type_of(element_type type) {
  return types.at(static_cast<std::size_t>(type)).second;
}

}  // namespace

tensor_view view_of(std::string name, const at::Tensor& tensor) {
  tensor_view view;
  view.type = type_of(name, tensor);
  view.name = std::move(name);
  for (const std::int64_t length : tensor.sizes())
    view.shape.push_back(static_cast<std::uint64_t>(length));
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
    view.bytes = {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
  } else if (tensor.is_cpu()) {
    // Its memory is what is viewed, whatever the tensor is given before it is copied.
    view.copy = [from = tensor.detach()](char* to) { fetch(from, to); };
  } else if (tensor.is_cuda()) {
    const auto fetched = prepare_fetch(tensor);
    view.copy = fetched.copy;
    view.on_device = fetched.bytes;
  } else {
    // Copy on this thread's stream: the fetching thread's own would not wait for pending writes.
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    view.copy = [from = tensor.detach(), stream = device.getStream(tensor.device())](char* to) {
      const c10::StreamGuard on(stream);
      fetch(from, to);
    };
  }
  return view;
}

at::Tensor tensor_of(const tensor_view& view) {
  std::vector<std::int64_t> sizes(view.shape.begin(), view.shape.end());
  if (view.copy) {
    const auto fetched = at::empty(sizes, scalar_type_of(view.type));
    view.copy(static_cast<char*>(fetched.mutable_data_ptr()));
    return fetched;
  }
  return at::from_blob(const_cast<char*>(view.bytes.data()), sizes, scalar_type_of(view.type));
}

}  // namespace ddprun::worker
