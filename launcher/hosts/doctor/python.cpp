#include "launcher/hosts/doctor/python.hpp"

#include "launcher/base/text.hpp"
#include "launcher/cli/check_files.hpp"
#include "launcher/node/installed_packages.hpp"
#include "launcher/process/find_program.hpp"

#include <spdlog/fmt/fmt.h>

#include <cctype>
#include <dlfcn.h>

namespace ddprun::launcher::doctor {
namespace {

// The CUDA of "2.15.0+cu132" in the driver's form: 13020. 0: built without CUDA.
int cuda_of(const std::string& torch) {
  const std::size_t at = torch.find("+cu");
  if (at == std::string::npos) return 0;
  const int digits = leading_number<int>(std::string_view(torch).substr(at + 3)).value_or(0);
  return digits / 10 * 1000 + digits % 10 * 10;
}

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int ask_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return 0;
  using get_version = int (*)(int*);
  const auto ask = reinterpret_cast<get_version>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

}  // namespace

python_facts read_python(const environment_map& environment) {
  python_facts facts;
  facts.wanted = python_program(environment);
  facts.python = find_program(facts.wanted, to_entries(environment)).value_or("");
  if (facts.python.empty()) return facts;
  facts.torch = installed_torch(environment);
  facts.nccl = facts.torch.empty() ? "" : installed_nccl(environment);
  facts.driver_cuda = ask_driver();
  return facts;
}

findings judge_python(const python_facts& facts) {
  if (facts.python.empty())
    return {{"Python", health::warning, facts.wanted + " is not there",
             "activate the environment, or name its Python with PYTHON_EXEC (plain programs need "
             "none)"}};
  if (facts.torch.empty())
    return {{"Python", health::warning, facts.python + " has no PyTorch",
             "activate the environment that has it, or name its Python with PYTHON_EXEC"}};
  findings found = {
      {"Python", health::ok, fmt::format("{}: PyTorch {}", facts.python, facts.torch), {}}};
  const int wanted = cuda_of(facts.torch);
  // Newer minor versions of CUDA work with an older driver of the same major version (CUDA
  // Compatibility Guide).
  if (wanted != 0 && facts.driver_cuda != 0) {
    const bool is_good = facts.driver_cuda / 1000 >= wanted / 1000;
    found.push_back({"CUDA", is_good ? health::ok : health::error,
                     fmt::format("PyTorch is built for {}, the driver knows up to {}",
                                 cuda_text(wanted), cuda_text(facts.driver_cuda)),
                     is_good ? ""
                             : fmt::format("install a driver for CUDA {}, or a PyTorch that is "
                                           "built for {}",
                                           wanted / 1000, facts.driver_cuda / 1000)});
  }
  if (!facts.nccl.empty()) found.push_back({"NCCL", health::ok, facts.nccl, {}});
  return found;
}

}  // namespace ddprun::launcher::doctor
