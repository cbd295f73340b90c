// _dl_find_object() finds the unwinder's table for an address. g++'s unwinder calls it for each
// frame that an exception passes, but glibc has it only since 2.35. Before that unwinders used
// dl_iterate_phdr(), as this does for libraries. The program itself, which has nearly all frames,
// is looked up once, when it starts.
#include "rendezvous/glibc/find_object.hpp"

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <link.h>

namespace {

struct object_range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  // one past the last byte
  void* frame_table = nullptr;
};

// Written once, while there is one thread.
object_range own_program;

bool holds(const object_range& range, std::uintptr_t address) {
  return range.begin <= address && address < range.end;
}

object_range range_of(const dl_phdr_info& object) {
  object_range range{UINTPTR_MAX, 0, nullptr};
  for (std::size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) range.frame_table = reinterpret_cast<void*>(begin);
    if (segment.p_type != PT_LOAD) continue;
    if (begin < range.begin) range.begin = begin;
    if (begin + segment.p_memsz > range.end) range.end = begin + segment.p_memsz;
  }
  return range;
}

struct question {
  std::uintptr_t address = 0;
  object_range answer;
};

int look_at(dl_phdr_info* object, std::size_t, void* data) {
  auto& asked = *static_cast<question*>(data);
  asked.answer = range_of(*object);
  return holds(asked.answer, asked.address) && asked.answer.frame_table != nullptr ? 1 : 0;
}

// dl_iterate_phdr() begins with the program.
int take_first(dl_phdr_info* object, std::size_t, void*) {
  own_program = range_of(*object);
  return 1;
}

}  // namespace

void ddprun::glibc::remember_own_program() {
  ::dl_iterate_phdr(take_first, nullptr);
}

extern "C" __attribute__((visibility("hidden"), used)) int _dl_find_object(
    void* address, dl_find_object* out) noexcept {
  question asked{reinterpret_cast<std::uintptr_t>(address), own_program};
  if (!holds(own_program, asked.address) && ::dl_iterate_phdr(look_at, &asked) == 0) return -1;
  if (asked.answer.frame_table == nullptr) return -1;
  out->dlfo_flags = 0;
  out->dlfo_map_start = reinterpret_cast<void*>(asked.answer.begin);
  out->dlfo_map_end = reinterpret_cast<void*>(asked.answer.end);
  out->dlfo_link_map = nullptr;
  out->dlfo_eh_frame = asked.answer.frame_table;
  return 0;
}
