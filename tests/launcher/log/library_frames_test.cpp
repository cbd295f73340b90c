#include "launcher/log/library_frames.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

using ddprun::launcher::library_frames;

TEST_CASE("frames of installed packages are told from a person's own, and from the exception") {
  const std::string mark = GENERATE("", "[rank12]: ");
  const std::vector<std::pair<std::string, bool>> lines = {
      {"Traceback (most recent call last):", false},
      {"  File \"/data/train.py\", line 9, in <module>", false},
      {"    step(n)", false},
      {"  File \"/venv/lib/python3.12/site-packages/torch/_tensor.py\", line 6, in backward", true},
      {"    torch.autograd.backward(", true},
      {"    ^^^^^^^^^^^^^^^^^^^^^^^^", true},
      {"  File \"<frozen runpy>\", line 198, in _run_module_as_main", true},
      {"  File \"/data/loss.py\", line 3, in scale", false},
      {"    return 1 / 0", false},
      {"  File \"/usr/lib/python3/dist-packages/x.py\", line 1, in f", true},
      {"RuntimeError: Connection closed by peer", false},
      {"    no code of a frame", false},
  };
  library_frames frames;
  for (const auto& [line, is_library] : lines) {
    INFO(line);
    CHECK(frames.take(mark + line + "\n") == is_library);
  }
}

TEST_CASE("what only resembles a frame is none") {
  library_frames frames;
  CHECK_FALSE(frames.take("    x"));
  CHECK_FALSE(frames.take("  File \"/venv/lib/python3.12/site-packages/a.py\" is missing"));
  CHECK_FALSE(frames.take("File \"/venv/lib/python3.12/site-packages/a.py\", line 3, in f"));
  CHECK_FALSE(frames.take("[rank]:   File \"/lib/python3/a.py\", line 3, in f"));
  CHECK_FALSE(frames.take(""));
}
