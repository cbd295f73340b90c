#include "rendezvous/base/time.hpp"

namespace ddprun {

std::int64_t to_micros(duration value) {
  return std::chrono::duration_cast<std::chrono::microseconds>(value).count();
}

std::string to_text(duration value) {
  using namespace std::chrono;
  const auto milli = duration_cast<milliseconds>(value).count();
  if (milli < 1000) return std::to_string(milli < 0 ? 0 : milli) + " ms";
  if (milli < 10'000 && milli % 1000 >= 100) {
    return std::to_string(milli / 1000) + "." + std::to_string(milli % 1000 / 100) + " s";
  }
  const auto whole = milli / 1000;
  if (whole < 120) return std::to_string(whole) + " s";
  std::string text = std::to_string(whole / 60) + " min";
  if (whole % 60 != 0) text += " " + std::to_string(whole % 60) + " s";
  return text;
}

}  // namespace ddprun
