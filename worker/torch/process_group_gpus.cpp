// What a process group knows of its collectives on GPUs, which are done after the calls for them
// have returned.
#include "worker/torch/loss_text.hpp"
#include "worker/torch/process_group.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <exception>
#include <system_error>
#include <thread>

namespace ddprun::worker {
namespace {

constexpr auto nccl_timeout = std::chrono::minutes(10);  // PyTorch's default

// In some versions of LibTorch, backends other than NCCL's throw.
c10d::ErrorType reported_by(c10d::Backend& backend) {
  try {
    return backend.getError();
  } catch (const c10::Error&) {
    return c10d::ErrorType::SUCCESS;
  }
}

// Why a collective of this backend cannot end. Empty: nothing is known.
std::string error_of(c10d::Backend& backend) {
  switch (reported_by(backend)) {
    case c10d::ErrorType::SUCCESS:
      return "";
    case c10d::ErrorType::TIMEOUT:
      return "a collective of " + backend.getBackendName() + " timed out";
    case c10d::ErrorType::COMM_ERROR:
    case c10d::ErrorType::REMOTE_ERROR:
      break;
  }
  return backend.getBackendName() + " " + lost_text;
}

// Why the ranks' answer to an open question cannot come. Empty: it may.
std::string error_of(const c10d::Work& asking) {
  const auto error = asking.exception();
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& caught) {
    return caught.what_without_backtrace();
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

std::string error_of(const std::shared_future<std::string>& asking) {
  if (asking.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return "";
  try {
    (void)asking.get();
    return "";
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

// NCCL's abort waits for its kernels, which may wait behind those of another group: so all groups
// are aborted at once.
void abort_together(const std::vector<c10::intrusive_ptr<c10d::Backend>>& all) {
  const auto abort = [](c10d::Backend& backend) {
    try {
      backend.abort();
    } catch (const std::exception&) {
      // Whether the GPU is free again is seen from its work.
    }
  };
  std::vector<std::thread> threads;
  std::size_t begun = 0;
  try {
    for (; begun < all.size(); ++begun)
      threads.emplace_back([abort, backend = all[begun]] { abort(*backend); });
  } catch (const std::system_error&) {  // there may be no more threads
  }
  for (; begun < all.size(); ++begun)
    abort(*all[begun]);
  for (auto& each : threads)
    each.join();
}

}  // namespace

std::vector<c10::Device> process_group::gpus() const {
  std::vector<c10::Device> found;
  for (const c10::Device& kind : native()->getDeviceTypes()) {
    if (kind.is_cpu()) continue;
    const auto bound = native()->getBackend(kind.type())->getBoundDeviceId();
    found.push_back(bound ? *bound : c10::impl::VirtualGuardImpl(kind.type()).getDevice());
  }
  return found;
}

std::chrono::milliseconds process_group::gpu_timeout() const {
  return options_.collective_timeout.value_or(nccl_timeout);
}

std::string process_group::error_on_gpus() const {
  std::vector<gpu_backend> all;
  group_->add_backends_on_gpus(all, /*with_closed=*/true);
  for (const auto& each : all) {
    if (auto error = error_of(*each.native); !error.empty()) return error;
  }
  return "";
}

std::function<std::string()> process_group::sign_of_loss() const {
  std::vector<gpu_backend> all;
  group_->add_backends_on_gpus(all, /*with_closed=*/false);
  return [all = std::move(all), asking = asking_, asking_words = asking_words_]() -> std::string {
    if (is_round_over()) return std::string("the round is over, it ") + lost_text;
    for (const auto& each : all) {
      if (*each.is_shut_down) continue;
      if (auto error = error_of(*each.native); !error.empty()) return error;
    }
    if (asking) return error_of(*asking);
    return asking_words.valid() ? error_of(asking_words) : "";
  };
}

std::function<void()> process_group::abort_on_gpus() const {
  std::vector<gpu_backend> all;
  group_->add_backends_on_gpus(all, /*with_closed=*/false);
  return [all = std::move(all)] {
    std::vector<c10::intrusive_ptr<c10d::Backend>> open;
    for (const auto& each : all) {
      if (!*each.is_shut_down) open.push_back(each.native);
    }
    abort_together(open);
  };
}

void process_group::open_group::add_backends_on_gpus(std::vector<gpu_backend>& to,
                                                     bool with_closed) const {
  for (const c10::Device& kind : native->getDeviceTypes()) {
    if (!kind.is_cpu()) to.push_back({native->getBackend(kind.type()), is_shut_down});
  }
  for (const auto& each : parts) {
    const auto part = each.lock();
    if (part && (with_closed || !part->is_closed)) part->add_backends_on_gpus(to, with_closed);
  }
}

}  // namespace ddprun::worker
