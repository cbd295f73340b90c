#include "launcher/warm/recording.hpp"

#include "launcher/warm/memory_file.hpp"
#include "launcher/warm/site_zip.hpp"

#include <utility>

namespace ddprun::launcher::warm {

result<recording> recording::begin(std::string_view known, const answer_options& answers) {
  auto list = make_memory_file("ddprun-imports", known);
  if (!list) return list.error();
  auto site = make_site_zip("import ddprun_site, ddprun_recorder\nddprun_recorder.begin(" +
                            python_literal(path_for_others(*list)) + ", " +
                            python_arguments(answers) + ")\n");
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
  return text_of(list_);
}

}  // namespace ddprun::launcher::warm
