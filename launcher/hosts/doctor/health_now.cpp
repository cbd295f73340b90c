#include "launcher/hosts/doctor/health_now.hpp"

#include "launcher/base/text.hpp"
#include "launcher/hosts/doctor/gpus.hpp"
#include "launcher/hosts/doctor/nvml.hpp"
#include "launcher/hosts/doctor/start_check.hpp"
#include "launcher/node/gpu_holders.hpp"
#include "launcher/process/program_answer.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::size_t answer_bytes_max = 4096;

using csv_row = std::vector<std::string>;

// Lines with another number of values are messages of the driver.
std::vector<csv_row> rows_of(const std::string& csv, std::size_t values) {
  std::vector<csv_row> rows;
  for (const std::string_view line : split(csv, '\n')) {
    csv_row row;
    for (const std::string_view value : split(line, ','))
      row.emplace_back(trimmed(value));
    if (row.size() == values) rows.push_back(std::move(row));
  }
  return rows;
}

bool is_count(const std::string& text) {
  return whole_number<std::uint64_t>(text).has_value();
}

bool is_known(const std::string& value) {
  return !value.empty() && value.front() != '[';  // "[N/A]"
}

void add_to(std::string& all, const std::string& one) {
  if (!one.empty()) all += (all.empty() ? "" : "; ") + one;
}

// The lines that begin with this word, without it.
std::string lines_of_kind(const std::string& answer, std::string_view kind) {
  std::string lines;
  for (const std::string_view line : split(answer, '\n')) {
    if (line.starts_with(kind)) lines += std::string(line.substr(kind.size())) + "\n";
  }
  return lines;
}

std::string judge_gpus_by(const char* source, const std::string& recovery,
                          const std::string& errors, const std::string& remapped) {
  std::string found = judge_recovery(recovery, source);
  add_to(found, judge_gpu_memory(errors, remapped, says_recovery(recovery), source));
  return found;
}

std::string ask_nvidia_smi(const environment_map& environment, duration limit) {
  const auto ask = [&](const char* query) {
    return program_answer({"nvidia-smi", query, "--format=csv,noheader"}, environment, limit,
                          answer_bytes_max);
  };
  const std::string recovery = ask("--query-gpu=index,gpu_recovery_action");
  if (recovery.empty()) return {};  // no answer in time: the rest would be misjudged
  return judge_gpus_by("nvidia-smi", recovery,
                       ask("--query-gpu=index,retired_pages.pending,"
                           "ecc.errors.uncorrected.volatile.total"),
                       ask("--query-remapped-rows=gpu_bus_id,remapped_rows.pending,"
                           "remapped_rows.failure"));
}

std::string gpus_now(const environment_map& environment, const gpu_questions& asked) {
  const time_point begun = std::chrono::steady_clock::now();
  const std::string answer =
      program_answer({asked.program, nvml_argument}, environment, asked.limit, answer_bytes_max);
  if (!answer.empty())
    return judge_gpus_by("NVML", lines_of_kind(answer, "recovery "),
                         lines_of_kind(answer, "errors "), lines_of_kind(answer, "remapped "));
  // Where the driver hangs, nvidia-smi would take as long for nothing.
  const bool has_hung = std::chrono::steady_clock::now() - begun >= asked.limit;
  return has_hung ? std::string() : ask_nvidia_smi(environment, asked.limit);
}

void look_at_holders(const std::filesystem::path& root, const environment_map& environment,
                     pid_t agent, node_look& found) {
  const gpu_facts gpus = read_gpus(root, environment);
  std::vector<gpu_holder> others;
  for (const gpu_holder& one : gpus.holders) {
    const bool is_ours = descends_from(root, one.process, agent);
    if (is_ours && is_being_killed(root, one.process)) found.dying.push_back(one);
    if (!is_ours && !is_gpu_service(one)) others.push_back(one);
  }
  // Where the job has some of the GPUs another may have the rest.
  if (others.empty() || gpus.gpus.visible < gpus.gpus.present) return;
  found.warning = "processes that are not of this job have GPUs open: " + holders_text(others) +
                  "; their memory is not free for it: end what an old job has left";
}

}  // namespace

bool says_recovery(const std::string& csv) {
  const std::vector<csv_row> rows = rows_of(csv, 2);
  return std::any_of(rows.begin(), rows.end(),
                     [](const csv_row& row) { return is_count(row[0]) && is_known(row[1]); });
}

std::string judge_recovery(const std::string& csv, const std::string& source) {
  std::string found;
  for (const csv_row& row : rows_of(csv, 2)) {
    if (!is_count(row[0]) || !is_known(row[1]) || row[1] == "None") continue;
    add_to(found, "GPU " + row[0] + " needs: " + row[1]);
  }
  return found.empty() ? found : found + " (" + source + ", gpu_recovery_action)";
}

std::string judge_gpu_memory(const std::string& errors_csv, const std::string& remapped_csv,
                             bool knows_recovery, const std::string& source) {
  std::string found;
  const std::string by = " (" + source;
  for (const csv_row& row : rows_of(errors_csv, 3)) {
    if (knows_recovery || !is_count(row[0])) continue;
    if (row[1] == "Yes")
      add_to(found, "GPU " + row[0] + " needs a reset: retired_pages.pending" + by + ")");
    if (is_count(row[2]) && row[2] != "0")
      add_to(found, "GPU " + row[0] + ": uncorrected memory errors since its last reset: " +
                        row[2] + by + ", ecc.errors.uncorrected.volatile.total)");
  }
  for (const csv_row& row : rows_of(remapped_csv, 3)) {
    if (row[0].find(':') == std::string::npos) continue;  // not a bus address
    if (row[2] == "Yes")
      add_to(found, "GPU " + row[0] + " has to be replaced: remapped_rows.failure" + by + ")");
    else if (row[1] == "Yes" && !knows_recovery)
      add_to(found, "GPU " + row[0] + " needs a reset: remapped_rows.pending" + by + ")");
  }
  return found;
}

std::string errors_of(const findings& found) {
  std::string text;
  for (const finding& each : found) {
    const bool comes_and_goes = each.check == "shared memory" || each.check == "disk";
    if (each.state == health::error && comes_and_goes) add_to(text, each.check + ": " + each.seen);
  }
  return text;
}

node_look health_now(const std::filesystem::path& root, const environment_map& environment,
                     pid_t agent, const gpu_questions& asked) {
  node_look found;
  found.unhealthy = errors_of(check_room(root, environment));
  std::error_code error;
  if (!std::filesystem::exists(root / "proc/driver/nvidia/version", error)) return found;
  add_to(found.unhealthy, gpus_now(environment, asked));
  look_at_holders(root, environment, agent, found);
  return found;
}

}  // namespace ddprun::launcher::doctor
