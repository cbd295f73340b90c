// Takes the place of NVIDIA's management library, as far as launcher/hosts/doctor/nvml.cpp uses it.
// FAKE_NVML has a word for each GPU, separated by spaces: a number, the recovery action that the
// driver asks for; "old", a driver that does not know of such, with two memory errors and pages
// that wait for a reset; "lost"; "reset"; "rows", which cannot be remapped any more. "broken"
// alone: the library does not begin. "hangs": it never comes back.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct field {
  std::uint32_t id, scope;
  std::int64_t timestamp, latency_us;
  int type, result;
  unsigned long long value;
};

struct pci {
  char short_address[16];
  unsigned numbers[5];
  char address[32];
};

std::vector<std::string>& gpus() {
  static std::vector<std::string> all;
  return all;
}

const std::string& word_of(void* gpu) {
  return *static_cast<std::string*>(gpu);
}

constexpr int success = 0;
constexpr int not_supported = 3;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* const words = std::getenv("FAKE_NVML");
  std::istringstream text(words == nullptr ? "broken" : words);
  for (std::string word; text >> word;)
    gpus().push_back(word);
  while (gpus().front() == "hangs")
    pause();
  return gpus().front() == "broken" ? 9 : success;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus().size());
  return success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** gpu) {
  *gpu = &gpus().at(index);
  return gpus().at(index) == "lost" ? 15 : gpus().at(index) == "reset" ? 16 : success;
}

int nvmlDeviceGetFieldValues(void* gpu, int count, field* values) {
  if (count != 1 || values->id != 230) return 2;
  values->result = word_of(gpu) == "old" ? not_supported : success;
  values->value = std::strtoull(word_of(gpu).c_str(), nullptr, 10);
  return success;
}

int nvmlDeviceGetTotalEccErrors(void* gpu, int type, int counter, unsigned long long* count) {
  *count = 2;
  return type != 1 || counter != 0 ? 2 : word_of(gpu) == "old" ? success : not_supported;
}

int nvmlDeviceGetRetiredPagesPendingStatus(void* gpu, int* is_pending) {
  *is_pending = word_of(gpu) == "old" ? 1 : 0;
  return success;
}

int nvmlDeviceGetRemappedRows(void* gpu, unsigned* corrected, unsigned* uncorrected,
                              unsigned* is_pending, unsigned* has_failed) {
  *corrected = *uncorrected = *is_pending = 0;
  *has_failed = word_of(gpu) == "rows" ? 1 : 0;
  return word_of(gpu) == "old" ? not_supported : success;
}

int nvmlDeviceGetPciInfo_v3(void* gpu, pci* place) {
  std::snprintf(place->address, sizeof place->address, "%08X:07:00.0",
                static_cast<unsigned>(&word_of(gpu) - gpus().data()));
  return success;
}
}
