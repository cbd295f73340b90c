#include "launcher/hosts/doctor/nvml.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace ddprun::launcher::doctor {
namespace {

// As nvml.h has them.
using nvml_device = void*;
constexpr int nvml_success = 0;
constexpr int nvml_gpu_is_lost = 15;
constexpr int nvml_reset_required = 16;
constexpr std::uint32_t recovery_action_field = 230;
constexpr int uncorrected = 1;    // nvmlMemoryErrorType_t
constexpr int since_a_reset = 0;  // NVML_VOLATILE_ECC
constexpr std::array<const char*, 8> recovery_actions = {
    "None",           "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain",
    "Reset of a Bus", "Reboot"};

// It has fallen off the bus, or cannot be reached for another reason.
constexpr const char* is_lost = "Reset or Reboot (it is lost)";

struct nvml_field {
  std::uint32_t id = 0;
  std::uint32_t scope = 0;
  std::int64_t timestamp = 0;
  std::int64_t latency_us = 0;
  int type = 0;
  int result = 0;
  union {
    unsigned whole;
    std::uint64_t widest;
  } value{};
};

struct nvml_pci {
  std::array<char, 16> short_address{};
  std::array<unsigned, 5> numbers{};
  std::array<char, 32> address{};
};

template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

struct nvml_calls {
  explicit nvml_calls(void* library)
      : init(function_of<int()>(library, "nvmlInit_v2")),
        count(function_of<int(unsigned*)>(library, "nvmlDeviceGetCount_v2")),
        device(function_of<int(unsigned, nvml_device*)>(library, "nvmlDeviceGetHandleByIndex_v2")),
        fields(
            function_of<int(nvml_device, int, nvml_field*)>(library, "nvmlDeviceGetFieldValues")),
        errors(function_of<int(nvml_device, int, int, unsigned long long*)>(
            library, "nvmlDeviceGetTotalEccErrors")),
        retired(
            function_of<int(nvml_device, int*)>(library, "nvmlDeviceGetRetiredPagesPendingStatus")),
        rows(function_of<int(nvml_device, unsigned*, unsigned*, unsigned*, unsigned*)>(
            library, "nvmlDeviceGetRemappedRows")),
        pci(function_of<int(nvml_device, nvml_pci*)>(library, "nvmlDeviceGetPciInfo_v3")) {}

  bool are_there() const {
    return init != nullptr && count != nullptr && device != nullptr && fields != nullptr &&
           errors != nullptr && retired != nullptr && rows != nullptr && pci != nullptr;
  }

  int (*init)();
  int (*count)(unsigned*);
  int (*device)(unsigned, nvml_device*);
  int (*fields)(nvml_device, int, nvml_field*);
  int (*errors)(nvml_device, int, int, unsigned long long*);
  int (*retired)(nvml_device, int*);
  int (*rows)(nvml_device, unsigned*, unsigned*, unsigned*, unsigned*);
  int (*pci)(nvml_device, nvml_pci*);
};

const char* yes_or_no(bool is_so) {
  return is_so ? "Yes" : "No";
}

std::string recovery_of(const nvml_calls& nvml, nvml_device gpu) {
  nvml_field asked;
  asked.id = recovery_action_field;
  const int result = nvml.fields(gpu, 1, &asked);
  if (result == nvml_gpu_is_lost) return is_lost;
  if (result != nvml_success || asked.result != nvml_success) return "[N/A]";
  const unsigned action = asked.value.whole;
  return action < recovery_actions.size() ? recovery_actions[action]
                                          : "action " + std::to_string(action);
}

std::string errors_of_gpu(const nvml_calls& nvml, nvml_device gpu) {
  int pending = 0;
  unsigned long long count = 0;
  const bool knows_pending = nvml.retired(gpu, &pending) == nvml_success;
  const bool knows_count = nvml.errors(gpu, uncorrected, since_a_reset, &count) == nvml_success;
  return std::string(knows_pending ? yes_or_no(pending != 0) : "[N/A]") + ", " +
         (knows_count ? std::to_string(count) : "[N/A]");
}

std::string lines_of_gpu(const nvml_calls& nvml, unsigned index) {
  const std::string number = std::to_string(index);
  nvml_device gpu = nullptr;
  const int result = nvml.device(index, &gpu);
  if (result == nvml_gpu_is_lost) return "recovery " + number + ", " + is_lost + "\n";
  if (result == nvml_reset_required) return "recovery " + number + ", Reset\n";
  if (result != nvml_success) return {};  // it is another user's, say
  std::string lines = "recovery " + number + ", " + recovery_of(nvml, gpu) + "\nerrors " + number +
                      ", " + errors_of_gpu(nvml, gpu) + "\n";
  nvml_pci place;
  unsigned corrected = 0;
  unsigned bad = 0;
  unsigned pending = 0;
  unsigned failure = 0;
  if (nvml.pci(gpu, &place) != nvml_success ||
      nvml.rows(gpu, &corrected, &bad, &pending, &failure) != nvml_success)
    return lines;
  place.address.back() = '\0';
  return lines + "remapped " + place.address.data() + ", " + yes_or_no(pending != 0) + ", " +
         yes_or_no(failure != 0) + "\n";
}

}  // namespace

std::string nvml_answer(const char* library) {
  void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return {};
  const nvml_calls nvml(loaded);
  unsigned count = 0;
  if (!nvml.are_there() || nvml.init() != nvml_success || nvml.count(&count) != nvml_success)
    return {};
  std::string answer;
  for (unsigned index = 0; index < count; ++index)
    answer += lines_of_gpu(nvml, index);
  return answer;
}

void answer_nvml_if_asked(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], nvml_argument) != 0) return;
  // It has every GPU open: another agent that looks knows it by this name (gpu_holders).
  ::prctl(PR_SET_NAME, "ddprun-nvml");
  std::fputs(nvml_answer().c_str(), stdout);
  std::fflush(stdout);
  ::_exit(0);  // what the library does at the end of a process may block, too
}

}  // namespace ddprun::launcher::doctor
