#include "rendezvous/base/lifetime.hpp"

#include "tests/support/catch.hpp"

#include <memory>
#include <optional>
#include <string>

using namespace ddprun;

namespace {

struct shared_receiver : std::enable_shared_from_this<shared_receiver> {
  auto callback() {
    return while_alive(weak_from_this(), [this](int by) { calls += by; });
  }
  int calls = 0;
};

struct owned_receiver {
  auto callback() {
    return while_alive(alive.watch(), [this] { return ++calls; });
  }
  int calls = 0;
  lifetime alive;
};

}  // namespace

TEST_CASE("a callback does nothing when its receiver is gone, and does not keep it") {
  auto receiver = std::make_shared<shared_receiver>();
  auto call = receiver->callback();
  call(2);
  call(3);
  CHECK(receiver->calls == 5);
  const std::weak_ptr<shared_receiver> seen = receiver;
  receiver.reset();
  CHECK(seen.expired());
  call(1);
}

TEST_CASE("a shared receiver is held while it is called, also when that drops it") {
  auto receiver = std::make_shared<shared_receiver>();
  bool was_held = false;
  auto call = while_alive(receiver->weak_from_this(), [&] {
    const std::weak_ptr<shared_receiver> seen = receiver;
    receiver.reset();
    was_held = !seen.expired();
  });
  call();
  CHECK(was_held);
}

TEST_CASE("what is not shared has a lifetime as a member") {
  std::optional<owned_receiver> receiver(std::in_place);
  auto call = receiver->callback();
  CHECK(call() == 1);
  CHECK(call() == 2);
  receiver.reset();
  CHECK(call() == 0);  // what an int is by default
}

TEST_CASE("a callback that ends its receiver sees that it is gone") {
  std::optional<owned_receiver> receiver(std::in_place);
  bool was_gone = false;
  auto call = while_alive(receiver->alive.watch(), [&] {
    const auto alive = receiver->alive.watch();
    receiver.reset();
    was_gone = alive.expired();
  });
  call();
  CHECK(was_gone);
}

TEST_CASE("a lifetime that ended or began anew silences what was wrapped before") {
  owned_receiver receiver;
  auto first = receiver.callback();
  receiver.alive.begin_anew();
  auto second = receiver.callback();
  CHECK(first() == 0);
  CHECK(second() == 1);
  receiver.alive.end();
  CHECK(second() == 0);
  CHECK(receiver.calls == 1);
}

TEST_CASE("a callback may be moved into, and hands on what it is given") {
  const lifetime alive;
  auto call = while_alive(alive.watch(),
                          [kept = std::make_unique<std::string>("a")](std::string more) mutable {
                            return *kept += std::move(more);
                          });
  CHECK(call(std::string("b")) == "ab");
}
