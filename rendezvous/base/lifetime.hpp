// Callbacks to objects that may be destroyed before they are called: one idiom in all folders.
//
//   - The handler of an operation on a socket or timer that its object owns for good (a connection,
//     a dialer, a listener) keeps that object alive: `self = shared_from_this()`. Closing the
//     socket ends the operation.
//   - Any other callback, and whatever is posted, keeps nothing alive: it is wrapped by
//     while_alive(), does nothing if its receiver is gone, and so may safely capture `this`.
//   - A function that calls a handler which may destroy its object copies or moves the handler
//     first, and uses no member after the call; if it must continue, it checks a watch() taken
//     before.
//
// Thread rule: the receiver is destroyed, or its lifetime ended, on the thread of the callback.
// Other threads may hold and post a wrapped callback but must not call it.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace ddprun {

// A member of an object that is not shared. It ends with its owner, or by end().
class lifetime {
 public:
  lifetime() = default;
  lifetime(const lifetime&) = delete;
  lifetime& operator=(const lifetime&) = delete;

  // Says whether the lifetime has ended, without extending it.
  class watcher {
   public:
    explicit watcher(std::weak_ptr<const void> token) : token_(std::move(token)) {}
    bool expired() const { return token_.expired(); }

   private:
    std::weak_ptr<const void> token_;
  };
  watcher watch() const { return watcher(token_); }
  void end() { token_.reset(); }
  // Callbacks that were wrapped before do nothing any more.
  void begin_anew() { token_ = std::make_shared<const char>(); }

 private:
  std::shared_ptr<const void> token_ = std::make_shared<const char>();
};

// Calls `then` if the receiver still exists, and otherwise returns a default value. The owner of a
// lifetime may be destroyed in the call; a shared object, given by weak_from_this() or a weak_ptr,
// is kept alive during it.
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
