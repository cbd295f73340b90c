#include "launcher/base/library_file.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;

TEST_CASE("a file of an installed package or of Python itself is no person's") {
  for (const char* const file :
       {"/opt/venv/lib/python3.12/site-packages/torch/_tensor.py",
        "/usr/lib/python3/dist-packages/x.py", "/usr/lib/python3.11/runpy.py",
        "/usr/lib64/python3.9/runpy.py", "<frozen runpy>", "<frozen importlib._bootstrap>"})
    CHECK(is_library_file(file));
  for (const char* const file : {"train.py", "/data/lib/model.py", "<string>", "<stdin>", ""})
    CHECK_FALSE(is_library_file(file));
}
