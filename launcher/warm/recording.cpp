#include "launcher/warm/recording.hpp"

#include "launcher/warm/memory_file.hpp"
#include "launcher/warm/site_zip.hpp"

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::warm {

result<recording> recording::begin(std::string_view known, int stack_signal) {
  auto list = make_memory_file("ddprun-imports", known);
  if (!list) return list.error();
  auto site = make_site_zip("import ddprun_site, ddprun_recorder\nddprun_recorder.begin(" +
                            python_literal(path_for_others(*list)) + ", " +
                            std::to_string(stack_signal) + ")\n");
  if (!site) return site.error();
  return recording(std::move(*list), std::move(*site));
}

spawn_request recording::recorded(const spawn_request& request) const {
  spawn_request noted = request;
  noted.environment = with_site_zip(std::move(noted.environment), path_for_others(site_));
  return noted;
}

std::string recording::path() const {
  return path_for_others(list_);
}

std::uint64_t recording::bytes() const {
  return size_of(list_);
}

std::string recording::text() const {
  std::string text(bytes(), '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t count =
        ::pread(list_.get(), text.data() + read, text.size() - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    read += static_cast<std::size_t>(count);
  }
  text.resize(read);
  return text;
}

}  // namespace ddprun::launcher::warm
