#include "worker/snapshot/chunked_copy.hpp"

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/streaming_copy.hpp"

#include <algorithm>
#include <exception>
#include <thread>

namespace ddprun::worker {
namespace {

struct byte_range {
  std::size_t first = 0;
  std::size_t length = 0;
};

// Chunks `emptied_` to `begun_` are in transfer, one in each buffer.
class chunks {
 public:
  chunks(chunk_device& device, const chunk_buffers& buffers, byte_range range)
      : device_(device), buffers_(buffers), range_(range) {}
  // The next copy reuses the buffers, so wait until the device no longer writes to them.
  ~chunks() {
    for (; emptied_ < begun_; ++emptied_) {
      try {
        (void)device_.finish(emptied_ % buffers_.count);
      } catch (...) {
        // The first error is already being reported.
      }
    }
  }
  chunks(const chunks&) = delete;
  chunks& operator=(const chunks&) = delete;

  bool has_more_to_begin() const { return begun_ * buffers_.bytes < range_.length; }
  bool has_free_buffer() const { return begun_ - emptied_ < buffers_.count; }
  bool has_under_way() const { return emptied_ < begun_; }

  void begin_next() {
    device_.begin(begun_ % buffers_.count, offset(begun_), length(begun_));
    ++begun_;
  }
  void empty_oldest(char* to) {
    const std::size_t at = emptied_++;
    const char* const there = device_.finish(at % buffers_.count);
    streaming_copy(to + offset(at), {there, length(at)});
  }

 private:
  std::size_t offset(std::size_t chunk) const { return range_.first + chunk * buffers_.bytes; }
  std::size_t length(std::size_t chunk) const {
    return std::min(buffers_.bytes, range_.length - chunk * buffers_.bytes);
  }

  chunk_device& device_;
  const chunk_buffers buffers_;
  const byte_range range_;
  std::size_t begun_ = 0;
  std::size_t emptied_ = 0;
};

void copy_range(chunk_device& device, const chunk_buffers& buffers, byte_range range, char* to) {
  chunks all(device, buffers, range);
  while (all.has_more_to_begin() || all.has_under_way()) {
    while (all.has_more_to_begin() && all.has_free_buffer())
      all.begin_next();
    all.empty_oldest(to);
  }
}

// Splits the bytes into shares of whole chunks, except for the last one.
std::vector<byte_range> shares_of(std::size_t bytes, std::size_t chunk, std::size_t lanes) {
  const std::size_t all = (bytes + chunk - 1) / chunk;
  const std::size_t used = std::clamp<std::size_t>(all, 1, lanes);
  std::vector<byte_range> shares;
  for (std::size_t lane = 0; lane < used; ++lane) {
    const std::size_t first = all * lane / used * chunk;
    const std::size_t end = std::min(all * (lane + 1) / used * chunk, bytes);
    shares.push_back({first, end - first});
  }
  return shares;
}

}  // namespace

void copy_in_chunks(const std::vector<chunk_device*>& lanes, const chunk_buffers& buffers,
                    std::size_t bytes, char* to) {
  DDPRUN_ASSERT(!lanes.empty() && buffers.count >= 1 && buffers.bytes >= 1);
  const auto shares = shares_of(bytes, buffers.bytes, lanes.size());
  std::vector<std::exception_ptr> failures(shares.size());
  const auto copy_share = [&](std::size_t lane) {
    try {
      copy_range(*lanes[lane], buffers, shares[lane], to);
    } catch (...) {
      failures[lane] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  std::size_t started = 1;
  try {
    others.reserve(shares.size());
    for (; started < shares.size(); ++started)
      others.emplace_back(copy_share, started);
  } catch (const std::exception&) {
    // Without a further thread this one copies the remaining shares, which takes longer.
  }
  copy_share(0);
  for (; started < shares.size(); ++started)
    copy_share(started);
  for (auto& other : others)
    other.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace ddprun::worker
