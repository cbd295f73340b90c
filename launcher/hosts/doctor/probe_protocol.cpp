#include "launcher/hosts/doctor/probe_protocol.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher::doctor {

std::int64_t wall_clock() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

std::string eight_bytes(std::uint64_t value) {
  std::string bytes;
  for (int at = 0; at < 8; ++at)
    bytes.push_back(static_cast<char>(value >> (8 * at) & 0xff));
  return bytes;
}

std::uint64_t number_of_eight_bytes(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t at = 0; at < std::min<std::size_t>(8, bytes.size()); ++at)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at])} << (8 * at);
  return value;
}

// Returns false if the length is invalid: nobody sends that much.
bool probe_protocol::take_length(std::string_view& bytes) {
  while (length_bytes_missing_ > 0 && !bytes.empty()) {
    const int at = 8 - length_bytes_missing_--;
    length_ |= std::uint64_t{static_cast<unsigned char>(bytes.front())} << (8 * at);
    bytes.remove_prefix(1);
  }
  if (length_bytes_missing_ > 0) return true;
  bytes_missing_ = std::exchange(length_, 0);
  return bytes_missing_ > 0 && bytes_missing_ <= probe_bytes_max;
}

bool probe_protocol::take(std::string_view bytes, std::int64_t clock, std::string& answer) {
  while (!bytes.empty()) {
    if (!is_known()) {
      if (bytes.front() != probe_greeting[greeted_]) return false;
      bytes.remove_prefix(1);
      if (++greeted_ == probe_greeting.size()) answer += token_;
    } else if (length_bytes_missing_ > 0) {
      if (!take_length(bytes)) return false;
    } else if (bytes_missing_ > 0) {
      const std::size_t taken = std::min<std::uint64_t>(bytes_missing_, bytes.size());
      bytes.remove_prefix(taken);
      bytes_missing_ -= taken;
      if (bytes_missing_ == 0) answer += 'k';
    } else {
      const char order = bytes.front();
      bytes.remove_prefix(1);
      if (order == 't') answer += eight_bytes(static_cast<std::uint64_t>(clock));
      if (order == 'b') length_bytes_missing_ = 8;
      if (order != 't' && order != 'b') return false;
      // The peer does not read the answers.
      if (answer.size() > 64 * 1024) return false;
    }
  }
  return true;
}

}  // namespace ddprun::launcher::doctor
