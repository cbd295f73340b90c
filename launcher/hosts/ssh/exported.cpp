#include "launcher/hosts/ssh/exported.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher::ssh {
namespace {

// A "*" at the end matches anything.
constexpr std::array<std::string_view, 45> exported_names = {
    // Where programs, libraries and modules are found.
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "VIRTUAL_ENV", "CONDA_*", "MAMBA_*",
    "PYENV_*", "CUDA_HOME", "CUDA_PATH", "LIBRARY_PATH",
    // How they run.
    "NCCL_*", "RCCL_*", "GLOO_*", "UCX_*", "UCC_*", "FI_*", "OMP_*", "KMP_*", "GOMP_*", "MKL_*",
    "OPENBLAS_*", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING", "CUBLAS_*", "CUDNN_*", "TORCH_*", "TORCHINDUCTOR_*", "TORCHDYNAMO_*",
    "PYTORCH_*", "TRITON_*", "XLA_*",
    // What scripts read.
    "HOROVOD_*", "DEEPSPEED_*", "DS_*", "HF_*", "TRANSFORMERS_*", "TOKENIZERS_*", "WANDB_*", "LANG",
    "LC_*", "TZ", "LOGLEVEL"};

bool is_variable_name(std::string_view text) {
  return !text.empty() && text.find_first_of("= \t\n") == std::string_view::npos;
}

cli::checked take(environment_map& to, const environment_map& own, std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string given = "-x " + std::string(text);
  const std::string name(text.substr(0, equals));
  if (!is_variable_name(name)) return cli::wrong(given, "write NAME or NAME=VALUE");
  if (equals != std::string_view::npos) {
    to[name] = text.substr(equals + 1);
    return {};
  }
  const std::string* const value = find_variable(own, name);
  if (value == nullptr) {
    return cli::wrong(given, "there is no such variable here; set it, or write " + name + "=VALUE");
  }
  to[name] = *value;
  return {};
}

}  // namespace

bool is_exported(std::string_view name) {
  return std::any_of(exported_names.begin(), exported_names.end(), [&](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

cli::parsed<environment_map> exported_variables(const environment_map& own,
                                                const std::vector<std::string>& asked) {
  environment_map exported;
  for (const auto& [name, value] : own) {
    if (is_exported(name)) exported.emplace(name, value);
  }
  for (std::string_view text : asked) {
    while (true) {
      const std::size_t comma = text.find(',');
      const bool is_list = comma != std::string_view::npos && text.find('=') > comma;
      if (const cli::checked bad = take(exported, own, is_list ? text.substr(0, comma) : text))
        return *bad;
      if (!is_list) break;
      text.remove_prefix(comma + 1);
    }
  }
  return exported;
}

}  // namespace ddprun::launcher::ssh
