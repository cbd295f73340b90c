// The devices are fakes, which count the copies that they make.
#include "worker/snapshot/small_copies.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/folder_under_test.hpp"
#include "worker/snapshot/staging_buffer.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

struct copied_together {
  int device = 0;
  std::size_t tensors = 0;
  std::size_t bytes = 0;
};

class fake_bytes final : public device_bytes {
 public:
  fake_bytes(int device, std::string bytes, std::vector<copied_together>& made)
      : device_(device), bytes_(std::move(bytes)), made_(made) {}

  int device() const override { return device_; }
  void bring(std::span<const wanted> all) const override {
    copied_together made{device_, all.size(), 0};
    for (const auto& each : all) {
      const auto& one = static_cast<const fake_bytes&>(*each.from);
      if (one.device_ != device_) throw std::logic_error("of another device");
      one.bytes_.copy(each.to, one.bytes_.size());
      made.bytes += one.bytes_.size();
    }
    made_.push_back(made);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  int device_;
  std::string bytes_;
  std::vector<copied_together>& made_;
};

// A tensor on a device, which is brought alone by `copy`.
tensor_view on_device(const std::string& name, const std::shared_ptr<const fake_bytes>& bytes,
                      bool may_be_late, std::size_t& copied_alone) {
  tensor_view view = bytes_tensor(name, bytes->bytes());
  view.bytes = {};
  view.on_device = bytes;
  view.may_be_late = may_be_late;
  view.copy = [bytes, &copied_alone](char* to) {
    bytes->bytes().copy(to, bytes->bytes().size());
    ++copied_alone;
  };
  return view;
}

std::string letters(std::size_t count, std::size_t seed) {
  std::string all(count, ' ');
  for (std::size_t at = 0; at < count; ++at)
    all[at] = static_cast<char>('a' + (at * 7 + seed) % 26);
  return all;
}

}  // namespace

TEST_CASE("small tensors of a device come with few copies, each of bounded size", "[snapshot]") {
  const std::size_t length = GENERATE(1u, 100u, 5000u, 200'000u);
  const std::size_t count = 2500;
  const std::size_t kept = length > 5000 ? 30 : count;
  std::vector<copied_together> made;
  std::vector<std::string> arrived(kept, std::string(length, '?'));
  std::vector<std::string> sent;
  std::vector<small_copies::copy> copies;
  small_copies together([&](small_copies::copy next) { copies.push_back(std::move(next)); });
  for (std::size_t at = 0; at < kept; ++at) {
    sent.push_back(letters(length, at));
    together.add(std::make_shared<fake_bytes>(at % 3 == 0 ? 1 : 0, sent.back(), made), length,
                 arrived[at].data());
  }
  together.finish();
  together.finish();
  CHECK(made.empty());  // until they are called
  for (const auto& each : copies)
    each();
  CHECK((arrived == sent));
  std::map<int, std::size_t> copies_of, tensors_of;
  for (const auto& each : made) {
    CHECK(each.bytes <= small_copies_bytes_max);
    CHECK(each.tensors <= small_copies_count_max);
    ++copies_of[each.device];
    tensors_of[each.device] += each.tensors;
  }
  const std::size_t fit = std::min(small_copies_bytes_max / length, small_copies_count_max);
  for (const auto& [device, tensors] : tensors_of)
    CHECK(copies_of[device] == (tensors + fit - 1) / fit);
  CHECK(tensors_of[0] + tensors_of[1] == kept);
}

TEST_CASE("a state is staged with one copy of its small tensors", "[snapshot]") {
  const bool is_late = GENERATE(true, false);
  std::vector<copied_together> made;
  std::size_t alone = 0;
  snapshot_part state;
  for (std::size_t at = 0; at < 40; ++at) {
    const std::size_t length = at == 17 ? small_tensor_bytes_max + 1 : at == 20 ? 0 : 10 + at;
    state.tensors.push_back(on_device("t" + std::to_string(at),
                                      std::make_shared<fake_bytes>(0, letters(length, at), made),
                                      at % 2 == 1, alone));
  }
  std::string problem;
  auto layout = lay_out(state, {}, problem);
  REQUIRE(layout.has_value());
  staging_buffer staging;
  std::vector<std::function<void()>> late;
  REQUIRE_FALSE(staging.stage(*layout, is_late ? &late : nullptr));
  CHECK(made.size() == 1);
  CHECK(made.front().tensors == (is_late ? 19 : 38));  // none are of no bytes, or of too many
  CHECK(alone == (is_late ? 1 : 2));
  for (const auto& each : late)
    each();
  CHECK(made.size() == (is_late ? 2 : 1));
  CHECK(alone == 2);
  for (const auto& each : layout->tensors) {
    const auto number = std::stoul(each.name.substr(1));
    CHECK((each.bytes == letters(each.bytes.size(), number)));
  }
}

TEST_CASE("small tensors that cannot be brought are a failure of the save", "[snapshot]") {
  struct lost_device final : device_bytes {
    int device() const override { return 0; }
    void bring(std::span<const wanted>) const override {
      throw std::runtime_error("no such device");
    }
  };
  const bool is_late = GENERATE(true, false);
  folder_under_test test;
  auto kept = test.open(1);
  CHECK_FALSE(save(kept, 10));
  const small_state all(20);
  auto state = all.view();
  state.replicated.tensors[0].on_device = std::make_shared<lost_device>();
  state.replicated.tensors[0].may_be_late = is_late;
  (void)kept->begin_save(20, 1, state);
  CHECK(kept->wait() == errc::invalid_argument);
  CHECK(kept->problem().find("cannot fetch the state: no such device") != std::string::npos);
  CHECK_FALSE(save(kept, 30));
}

}  // namespace ddprun::tests
