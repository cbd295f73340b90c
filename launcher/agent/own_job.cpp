#include "launcher/agent/own_job.hpp"

#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/store/key_hash.hpp"

#include <cstdint>
#include <string_view>

namespace ddprun::launcher {
namespace {

// Each word ends with a zero byte, so that "a b" differs from "a" and "b".
std::string words_of(const launch_options& options) {
  std::string words = options.module ? "-m" : options.no_python ? "--no-python" : "";
  words += '\0' + options.program + '\0';
  for (const std::string& argument : options.arguments)
    words += argument + '\0';
  return words;
}

// The same on every host and in all later versions. A collision of two jobs has a chance of 2^-64.
std::string digest_of(std::string_view words) {
  const auto half = [&](std::uint64_t which) {
    return core::sip_hash<2, 4>(words, {0x6a6f62, which});
  };
  return to_hex(half(1)) + "-" + to_hex(half(2));
}

std::string clock_text(std::time_t now) {
  std::tm local{};
  char text[6] = "";
  if (localtime_r(&now, &local) != nullptr) std::strftime(text, sizeof text, "%H:%M", &local);
  return text;
}

}  // namespace

started_job own_job(const launch_options& options, const std::string& node, std::time_t now) {
  started_job job;
  if (options.run_id == default_run_id) job.digest = digest_of(words_of(options));
  job.program = in_one_line(options.program.substr(options.program.rfind('/') + 1));
  job.started = clock_text(now);
  job.node = node;
  return job;
}

void say_job(hello& words, const started_job& job) {
  words.script = job.program;
  words.job = job;
}

}  // namespace ddprun::launcher
