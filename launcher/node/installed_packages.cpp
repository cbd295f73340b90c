#include "launcher/node/installed_packages.hpp"

#include "launcher/cli/check_files.hpp"
#include "launcher/process/program_answer.hpp"

#include <chrono>

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds limit{30};
constexpr std::size_t answer_bytes_max = 4096;
constexpr const char* torch_version = "import importlib.metadata as m; print(m.version('torch'))";
constexpr const char* nccl_library =
    "import importlib.util as u, os\n"
    "folders = u.find_spec('nvidia.nccl').submodule_search_locations\n"
    "print(os.path.join(list(folders)[0], 'lib', 'libnccl.so.2'))";

// The first line that Python prints; empty if it fails.
std::string ask_python(const environment_map& environment, const char* code) {
  const std::string answer = program_answer({python_program(environment), "-c", code}, environment,
                                            limit, answer_bytes_max);
  return answer.substr(0, answer.find('\n'));
}

}  // namespace

std::string installed_torch(const environment_map& environment) {
  return ask_python(environment, torch_version);
}

std::string installed_nccl(const environment_map& environment) {
  return ask_python(environment, nccl_library);
}

}  // namespace ddprun::launcher
