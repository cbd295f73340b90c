#include "tests/support/effort.hpp"

#include "tests/support/catch.hpp"

#include <numeric>
#include <optional>
#include <set>

namespace ddprun::tests {
namespace {

// Sets the variable in this process until the test is over.
class told_effort {
 public:
  explicit told_effort(const char* word) {
    if (const char* const before = std::getenv(name); before != nullptr) before_ = before;
    word == nullptr ? ::unsetenv(name) : ::setenv(name, word, 1);
  }
  ~told_effort() { before_ ? ::setenv(name, before_->c_str(), 1) : ::unsetenv(name); }
  told_effort(const told_effort&) = delete;
  told_effort& operator=(const told_effort&) = delete;

 private:
  static constexpr const char* name = "DDPRUN_TEST_EFFORT";
  std::optional<std::string> before_;
};

std::vector<std::uint64_t> all_of(std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_CASE("a thorough test takes every case, a quick one a sample of them") {
  {
    const told_effort told("thorough");
    CHECK(cases_to_take(1000, 40) == all_of(1000));
  }
  for (const char* const word : {static_cast<const char*>(nullptr), "", "quick"}) {
    const told_effort told(word);
    CHECK(cases_to_take(1000, 40).size() == (is_sanitized ? 10 : 40));
    CHECK(cases_to_take(1000, 40) == cases_to_take(1000, 40));  // a failed case is chosen again
    CHECK(cases_to_take(3, 40) == all_of(3));
    CHECK(cases_to_take(1000, 1).size() == 1);
  }
  const told_effort told("some");
  CHECK_THROWS_WITH(is_thorough(), "DDPRUN_TEST_EFFORT is \"some\": it may be quick or thorough");
}

TEST_CASE("a sample is spread over all cases, and in time takes each") {
  for (const std::uint64_t count : {1, 7, 101}) {
    for (const std::uint64_t most : {1, 3, 100, 1000}) {
      INFO(most << " of " << count);
      std::set<std::uint64_t> taken;
      bool are_spread = true;
      for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        const auto sample = spread_sample(count, most, seed);
        are_spread &= sample.size() == std::min(count, most) && sample.back() < count;
        for (std::size_t index = 1; index < sample.size(); ++index) {
          const bool is_next = sample[index - 1] < sample[index];
          are_spread &= is_next && sample[index] - sample[index - 1] <= 2 * (count / most + 1);
        }
        taken.insert(sample.begin(), sample.end());
      }
      CHECK(are_spread);
      CHECK(taken.size() == count);
    }
  }
  CHECK(spread_sample(0, 5, 1).empty());
  CHECK(spread_sample(~std::uint64_t{0}, 2, 1)[1] >= ~std::uint64_t{0} / 2);
}

}  // namespace ddprun::tests
