#include "launcher/nccl/nccl_library.hpp"

#include "worker/nccl_version.hpp"

#include <dlfcn.h>

namespace ddprun::launcher {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& found) {
  found = reinterpret_cast<Function>(::dlsym(library, name));
  return found != nullptr;
}

std::string last_problem() {
  const char* const text = ::dlerror();
  return text == nullptr ? "no reason was given" : text;
}

std::string path_of(const void* entry) {
  Dl_info info{};
  return ::dladdr(entry, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname
                                                                  : nccl_library_name;
}

}  // namespace

std::optional<nccl_library> nccl_library::open(const std::string& path, std::string& problem) {
  void* library = ::dlopen(nccl_library_name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    library = ::dlopen(path.empty() ? nccl_library_name : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    problem = "NCCL cannot be loaded: " + last_problem() +
              "; install it beside the workers' PyTorch, or name it in DDPRUN_NCCL_LIBRARY";
    return std::nullopt;
  }
  nccl_library opened;
  int (*get_version)(int*) = nullptr;
  if (!find(library, "ncclGetVersion", get_version) ||
      !find(library, "ncclGetUniqueId", opened.get_unique_id_) ||
      !find(library, "ncclGetErrorString", opened.get_error_string_)) {
    problem = (path.empty() ? nccl_library_name : path) + ": that is not NCCL: " + last_problem();
    return std::nullopt;
  }
  find(library, "ncclGetLastError", opened.get_last_error_);
  int version = 0;
  if (const int code = get_version(&version); code != 0) {
    problem = "NCCL does not tell its version: " + std::string(opened.get_error_string_(code));
    return std::nullopt;
  }
  opened.version_ = static_cast<std::uint32_t>(version);
  opened.path_ = path_of(reinterpret_cast<const void*>(get_version));
  return opened;
}

std::optional<worker::nccl_id> nccl_library::make_id(std::string& problem) const {
  worker::nccl_id id{};
  const int code = get_unique_id_(&id);
  if (code == 0) return id;
  problem = "NCCL " + worker::nccl_version_text(version_) +
            " cannot create an id: " + get_error_string_(code);
  if (get_last_error_ != nullptr) problem += ": " + std::string(get_last_error_(nullptr));
  problem += "; NCCL_DEBUG=INFO says more, NCCL_SOCKET_IFNAME chooses the interface";
  return std::nullopt;
}

}  // namespace ddprun::launcher
