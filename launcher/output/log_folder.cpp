#include "launcher/output/log_folder.hpp"

#include "rendezvous/base/utf8.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

// How much is kept of the run's and the node's id: a file name has at most 255 bytes.
constexpr std::size_t id_bytes_kept = 100;

// Makes a text one part of a path, which cannot name another folder.
std::string one_name(std::string text) {
  text.resize(first_of(text, id_bytes_kept).size());
  for (char& c : text) {
    if (c == '/') c = '_';
  }
  return text;
}

}  // namespace

cli::parsed<log_folder> log_folder::make(const output_options& options, const std::string& run_id,
                                         const std::string& node, const std::string& mark,
                                         const environment_map& environment) {
  log_folder made;
  if (options.is_off()) return made;
  const bool is_temporary = options.log_dir.empty();
  const fs::path base = is_temporary ? folder_for_temporaries(environment) : options.log_dir;
  std::error_code error;
  // The workers may change their folder before they write.
  const fs::path absolute = fs::absolute(base, error);
  if (is_temporary && !options.writes_files()) {
    const bool is_writable = !error && ::access(absolute.c_str(), W_OK | X_OK) == 0;
    if (is_writable) made.errors_ = absolute / ("ddprun_" + mark);
    return made;
  }
  if (!is_temporary && !error) fs::create_directories(absolute, error);
  int code = error.value();
  std::string name = absolute / ((is_temporary ? "ddprun_" : "") + one_name(run_id) + "_" +
                                 one_name(node) + "_XXXXXX");
  if (code == 0 && ::mkdtemp(name.data()) == nullptr) code = errno;
  // mkdtemp's folder is private: right for /tmp, wrong for a folder of logs.
  if (code == 0 && !is_temporary) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    struct stat now {};
    // A setgid folder passes its group on to new folders.
    const mode_t group = ::stat(name.c_str(), &now) == 0 ? now.st_mode & S_ISGID : 0;
    ::chmod(name.c_str(), (0777 & ~mask) | group);
  }
  if (code != 0) {
    const std::string option = is_temporary ? "log files" : "--log-dir=" + options.log_dir;
    return cli::usage_error{option + ": cannot create a folder in " + absolute.string() + ": " +
                            std::strerror(code) +
                            "; name one that this node can write, with --log-dir"};
  }
  made.path_ = name;
  return made;
}

void log_folder::begin_round(round_number round, std::uint32_t restarts) {
  round_ = round;
  if (path_.empty()) return;
  attempt_ = path_ + "/attempt_" + std::to_string(restarts);
  if (!begun_.insert(restarts).second) attempt_ += "_round_" + std::to_string(round);
}

std::vector<std::string> log_folder::worker_folders(std::uint32_t worker_count) const {
  std::vector<std::string> folders;
  for (std::uint32_t rank = 0; rank < worker_count && !attempt_.empty(); ++rank)
    folders.push_back(attempt_ + "/" + std::to_string(rank));
  return folders;
}

std::vector<std::string> log_folder::error_files(std::uint32_t worker_count) const {
  if (path_.empty() && errors_.empty()) return {};
  std::vector<std::string> files;
  for (std::uint32_t rank = 0; rank < worker_count; ++rank) {
    const std::string number = std::to_string(rank);
    files.push_back(path_.empty() ? errors_ + "_round_" + std::to_string(round_) + "_error_" +
                                        number + ".json"
                                  : attempt_ + "/" + number + "/error.json");
  }
  return files;
}

log_route log_folder::route(const output_options& options, std::uint32_t local_rank,
                            log::output_stream stream, const std::string& prefix) const {
  const bool is_errors = stream == log::output_stream::errors;
  const auto has = [&](const stream_choice& choice) {
    const stream_set chosen = choice.of(local_rank);
    return is_errors ? chosen.errors : chosen.output;
  };
  const std::string name = is_errors ? "stderr.log" : "stdout.log";
  const bool is_teed = has(options.tee);
  const bool is_among = options.shown.empty() || options.shown.contains(local_rank);
  log_route to;
  to.prefix = prefix;
  to.is_shown = is_among;
  if (attempt_.empty()) return to;
  const bool is_to_file = is_teed || has(options.redirects);
  if (is_to_file) to.file = attempt_ + "/" + std::to_string(local_rank) + "/" + name;
  to.is_shown = is_among && (is_teed || !is_to_file);
  if (is_teed && is_among) {
    to.needles = is_errors ? options.stderr_filters : options.stdout_filters;
    to.matches_file = attempt_ + "/filtered_" + name;
  }
  return to;
}

}  // namespace ddprun::launcher
