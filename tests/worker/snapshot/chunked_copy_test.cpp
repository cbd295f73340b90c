// The device is a fake, whose transfers complete only when they are waited for.
#include "worker/snapshot/chunked_copy.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

struct fake_device final : worker::chunk_device {
  fake_device(std::string from, const worker::chunk_buffers& with)
      : source(std::move(from)),
        buffers(with.count, std::string(with.bytes, '?')),
        under_way(with.count) {}

  void begin(std::size_t buffer, std::size_t offset, std::size_t count) override {
    calls += "b" + std::to_string(buffer) + " ";
    if (calls_left && (*calls_left)-- == 0) throw std::runtime_error("the device is lost");
    if (under_way.at(buffer) || count > buffers[buffer].size()) wrong = "a buffer is in use";
    under_way[buffer] = source.substr(offset, count);
    const auto now = std::count_if(under_way.begin(), under_way.end(),
                                   [](const auto& each) { return each.has_value(); });
    most = std::max(most, static_cast<std::size_t>(now));
  }
  const char* finish(std::size_t buffer) override {
    calls += "f" + std::to_string(buffer) + " ";
    if (!under_way.at(buffer)) wrong = "nothing was begun";
    const auto brought = std::exchange(under_way[buffer], std::nullopt);
    if (calls_left && (*calls_left)-- == 0) throw std::runtime_error("the device is lost");
    if (brought) std::copy(brought->begin(), brought->end(), buffers[buffer].begin());
    return buffers[buffer].data();
  }
  bool is_idle() const {
    return std::none_of(under_way.begin(), under_way.end(),
                        [](const auto& each) { return each.has_value(); });
  }

  std::string source;
  std::vector<std::string> buffers;
  std::vector<std::optional<std::string>> under_way;
  std::optional<std::size_t> calls_left;  // calls until one fails
  std::string calls, wrong;
  std::size_t most = 0;  // the most buffers in use at once
};

std::string letters_of_length(std::size_t count) {
  std::string all;
  for (std::size_t at = 0; at < count; ++at)
    all.push_back(static_cast<char>('a' + at % 23));
  return all;
}

}  // namespace

TEST_CASE("any number of bytes comes through any number of small buffers", "[snapshot]") {
  const std::size_t length = GENERATE(0u, 1u, 9u, 10u, 11u, 20u, 95u);
  const std::size_t count = GENERATE(1u, 2u, 3u, 20u);
  const worker::chunk_buffers buffers{count, 10};
  fake_device device(letters_of_length(length), buffers);
  std::string to(length + 1, '!');
  worker::copy_in_chunks({&device}, buffers, length, to.data());
  CHECK(to == device.source + "!");
  CHECK(device.wrong == "");
  CHECK(device.is_idle());
  CHECK(device.most == std::min(count, (length + 9) / 10));
}

TEST_CASE("the device fills the next buffer while one is emptied", "[snapshot]") {
  const worker::chunk_buffers buffers{2, 10};
  fake_device device(letters_of_length(35), buffers);
  std::string to(35, '!');
  worker::copy_in_chunks({&device}, buffers, 35, to.data());
  CHECK(device.calls == "b0 b1 f0 b0 f1 b1 f0 f1 ");
}

TEST_CASE("a device that fails has nothing under way when that is told", "[snapshot]") {
  const worker::chunk_buffers buffers{3, 10};
  for (std::size_t calls = 0; calls < 10; ++calls) {
    fake_device device(letters_of_length(50), buffers);
    device.calls_left = calls;
    std::string to(50, '!');
    CHECK_THROWS_WITH(worker::copy_in_chunks({&device}, buffers, 50, to.data()),
                      "the device is lost");
    CHECK(device.is_idle());
    CHECK(device.wrong == "");
  }
}

TEST_CASE("a copy is shared among lanes, at least a chunk for each", "[snapshot]") {
  const worker::chunk_buffers buffers{2, 10};
  const std::size_t length = GENERATE(0u, 1u, 10u, 11u, 20u, 21u, 30u, 31u, 45u, 1234u);
  const std::string source = letters_of_length(length);
  std::vector<std::unique_ptr<fake_device>> lanes;
  while (lanes.size() < 3)
    lanes.push_back(std::make_unique<fake_device>(source, buffers));
  std::string to(length + 1, '!');
  worker::copy_in_chunks({lanes[0].get(), lanes[1].get(), lanes[2].get()}, buffers, length,
                         to.data());
  CHECK(to == source + "!");
  std::size_t used = 0, begun = 0;
  for (const auto& lane : lanes) {
    CHECK(lane->wrong == "");
    CHECK(lane->is_idle());
    used += lane->calls.empty() ? 0 : 1;
    begun += static_cast<std::size_t>(std::count(lane->calls.begin(), lane->calls.end(), 'b'));
  }
  const std::size_t chunks = (length + 9) / 10;
  CHECK(begun == chunks);  // each chunk is transferred once
  CHECK(used == std::min<std::size_t>(chunks, 3));
}

TEST_CASE("a lane that fails is told once all others have nothing under way", "[snapshot]") {
  const worker::chunk_buffers buffers{2, 10};
  const std::string source = letters_of_length(200);
  fake_device first(source, buffers), second(source, buffers);
  (GENERATE(true, false) ? first : second).calls_left = 3;
  std::string to(200, '!');
  CHECK_THROWS_WITH(worker::copy_in_chunks({&first, &second}, buffers, 200, to.data()),
                    "the device is lost");
  CHECK((first.is_idle() && second.is_idle()));
  CHECK(first.wrong + second.wrong == "");
}

}  // namespace ddprun::tests
