// What the doctor's tests share: a node made of files, and findings as lines.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun::tests::doctor {

using namespace ddprun::launcher::doctor;

class fake_node {
 public:
  std::filesystem::path root() const { return folder_.path; }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

 private:
  temporary_folder folder_;
};

// "warning: what was seen: what to do", "nothing" where the check says nothing.
inline std::string line_of(const findings& found, const std::string& check) {
  for (const finding& each : found) {
    if (each.check != check) continue;
    const char* const state = each.state == health::ok        ? "ok: "
                              : each.state == health::warning ? "warning: "
                                                              : "error: ";
    return state + each.seen + (each.advice.empty() ? "" : ": " + each.advice);
  }
  return "nothing";
}

}  // namespace ddprun::tests::doctor
