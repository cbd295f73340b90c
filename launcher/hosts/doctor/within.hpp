// Work that may hang, such as a look at a folder whose file server does not answer, with a limit on
// how long is waited for it.
//
// Thread rule: any thread; blocks for `limit` at most. The work has a thread of its own, which is
// left behind when it is late: it must own what it touches. What it throws comes out here.
#pragma once

#include "rendezvous/base/time.hpp"

#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher::doctor {

// None: it is late, or no further thread can be started.
template <typename Work>
auto within(duration limit, Work work) -> std::optional<decltype(work())> {
  const auto task = std::make_shared<std::packaged_task<decltype(work())()>>(std::move(work));
  std::future<decltype(work())> answer = task->get_future();
  try {
    std::thread([task] { (*task)(); }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  if (answer.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace ddprun::launcher::doctor
