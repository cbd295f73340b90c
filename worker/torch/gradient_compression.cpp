#include "worker/torch/gradient_compression.hpp"

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace ddprun::worker {
namespace {

// LibTorch has such a hook in C++ only for float16; that for bfloat16 is in Python. As there,
// values are divided before they are summed, against overflow, and then copied back into the
// bucket.
class compress final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  compress(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10::ScalarType type)
      : CppCommHookInterface(group), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    at::Tensor whole = bucket.getBufferRef();
    std::vector<at::Tensor> sent{whole.to(type_).div_(state_->getSize())};
    return state_->allreduce(sent)->getFuture()->then(
        [whole](c10::ivalue::Future& done) {
          whole.copy_(c10d::detail::parseCppCommHookResult(done.value()));
          return c10::IValue(whole);
        },
        c10::TensorType::get());
  }

 private:
  c10::ScalarType type_;
};

}  // namespace

void compress_gradients(c10d::Reducer& reducer, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        gradient_compression how) {
  if (how == gradient_compression::none) return;
  const auto type =
      how == gradient_compression::fp16 ? c10::ScalarType::Half : c10::ScalarType::BFloat16;
  reducer.register_comm_hook(std::make_unique<compress>(group, type));
}

}  // namespace ddprun::worker
