// Callbacks to objects that may be gone when they come: one idiom, in all folders.
//
//   - The handler of an operation on a socket or timer that its object owns for good (a
//     connection, a dialler, a listener) keeps that object: `self = shared_from_this()`. Closing
//     ends it.
//   - Any other callback, and whatever is posted, keeps nothing alive: it is wrapped by
//     while_alive(), and does nothing when its receiver is gone. It names its receiver as `this`
//     then, safely.
//   - A function that calls a handler which may destroy it takes a copy of the handler, or moves it
//     out, before the call, and touches none of its own members after it; where it goes on, it asks
//     what it has taken from watch() before.
//
// Thread rule: the receiver is destroyed, or its lifetime ended, on the thread that the callback
// comes on. Another thread may hold and post a wrapped callback; it never calls it.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace ddprun {

// A member of what is not shared itself. It ends with its owner, or by end().
class lifetime {
 public:
  lifetime() = default;
  lifetime(const lifetime&) = delete;
  lifetime& operator=(const lifetime&) = delete;

  // Tells whether it goes on, and does not prolong it.
  class watcher {
   public:
    explicit watcher(std::weak_ptr<const void> token) : token_(std::move(token)) {}
    bool expired() const { return token_.expired(); }

   private:
    std::weak_ptr<const void> token_;
  };
  watcher watch() const { return watcher(token_); }
  void end() { token_.reset(); }
  // What was wrapped before does nothing any more.
  void begin_anew() { token_ = std::make_shared<const char>(); }

 private:
  std::shared_ptr<const void> token_ = std::make_shared<const char>();
};

// Calls `then` as long as the receiver is there. The owner of a lifetime, by its watch(), may be
// destroyed in the call; what is shared, a weak_from_this() or a weak_ptr, is held meanwhile. Else
// gives what a value is by default.
template <typename Then>
auto while_alive(lifetime::watcher receiver, Then then) {
  return [receiver = std::move(receiver), then = std::move(then)](auto&&... words) mutable {
    using result = std::invoke_result_t<Then&, decltype(words)...>;
    if (receiver.expired()) return result();
    return then(std::forward<decltype(words)>(words)...);
  };
}
template <typename Then>
auto while_alive(std::weak_ptr<const void> receiver, Then then) {
  return [receiver, call = while_alive(lifetime::watcher(receiver), std::move(then))](
             auto&&... words) mutable {
    const std::shared_ptr<const void> held = receiver.lock();
    return call(std::forward<decltype(words)>(words)...);
  };
}

}  // namespace ddprun
