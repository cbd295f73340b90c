#include "launcher/nccl/program_libraries.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

const std::string itself = std::filesystem::read_symlink("/proc/self/exe");
constexpr const char* name = "libnccl.so.2";

}  // namespace

TEST_CASE("the library is found in the loader's list, by its whole name") {
  CHECK(library_in_list("\tlinux-vdso.so.1 (0x00007ffe)\n"
                        "\tlibnccl.so.21 => /x/libnccl.so.21 (0x00007f01)\n"
                        "\tlibnccl.so.2 => /with space/lib/libnccl.so.2 (0x00007f02)\n"
                        "\tlibc.so.6 => /lib/libc.so.6 (0x00007f03)\n",
                        name) == "/with space/lib/libnccl.so.2");
  // The file has another name, and the last line has no newline.
  CHECK(library_in_list("libnccl.so.2 => /x/libnccl.so.2.28.9 (0x1)", name) ==
        "/x/libnccl.so.2.28.9");
  // Named by its path, as in LD_PRELOAD, and in musl's form.
  CHECK(library_in_list("\t/own/libnccl.so.2 (0x1)\n", name) == "/own/libnccl.so.2");
  CHECK(library_in_list("/own/libnccl.so.2 => /own/libnccl.so.2 (0x1)\n", name) ==
        "/own/libnccl.so.2");
}

TEST_CASE("where the loader does not find the library there is none") {
  CHECK(library_in_list("", name).empty());
  CHECK(library_in_list("\n\n", name).empty());
  CHECK(library_in_list("\tlibnccl.so.2 => not found\n", name).empty());
  CHECK(library_in_list("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n", name).empty());
  CHECK(library_in_list("\tstatically linked\n", name).empty());
  CHECK(library_in_list("x => /folder/of/libnccl.so.2/x (0x1)\n", name).empty());
}

TEST_CASE("a program's libraries are those that its loader finds, and it is not run") {
  const std::string found = library_of_program(itself, "libc.so.6", {});
  REQUIRE_FALSE(found.empty());
  CHECK(std::filesystem::exists(found));
  CHECK(library_of_program("sh", "libc.so.6", {{"PATH", "/nowhere:/bin"}}) == found);
  CHECK(library_of_program(itself, name, {}).empty());
}

TEST_CASE("what is no program of this machine has no loader") {
  const tests::temporary_folder folder;
  CHECK(loader_of(itself).starts_with('/'));
  CHECK(loader_of(folder.path + "/none").empty());
  CHECK(loader_of(folder.path).empty());
  CHECK(loader_of(folder.file("script", "#!/bin/sh\n", 0700)).empty());
  CHECK(library_of_program("no-such-program", "libc.so.6", {}).empty());
  CHECK(library_of_program(folder.file("a.sh", "#!/bin/sh\n", 0700), "libc.so.6", {}).empty());
  // Cut at any byte of the header.
  const std::string path = folder.file("cut", tests::content_of(itself).substr(0, 4096), 0700);
  const std::string loader = loader_of(itself);
  for (std::size_t size = 4096; size-- > 0;) {
    std::filesystem::resize_file(path, size);
    const std::string cut = loader_of(path);
    if (!cut.empty()) CHECK(cut == loader);
  }
}
