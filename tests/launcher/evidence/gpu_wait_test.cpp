#include "launcher/evidence/gpu_wait.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fstream>
#include <string>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

std::string wait_in(const std::string& line) {
  return gpu_wait_of({{"/home/me/train.py", 9, "step"}}, line);
}

}  // namespace

TEST_CASE("a call that returns when the GPU is done is known by its frame or by its line") {
  const std::string cuda = "/venv/lib/python3.12/site-packages/torch/cuda/";
  CHECK(gpu_wait_of({{cuda + "__init__.py", 1, "synchronize"}}, "") == "synchronize");
  CHECK(gpu_wait_of({{cuda + "streams.py", 1, "synchronize"}}, "") == "synchronize");
  CHECK(gpu_wait_of({{"/venv/lib/python3.12/site-packages/torch/nn/parallel/distributed.py", 1566,
                      "_pre_forward"}},
                    "") == "_pre_forward");
  CHECK(wait_in("    total += loss.item()") == ".item()");
  CHECK(wait_in("    print(loss.detach().cpu())") == ".cpu()");
  CHECK(wait_in("    work.wait()") == ".wait()");
  CHECK(wait_in("    total += float(loss)") == "float()");
  CHECK(wait_in("    losses.append(loss.item())") == ".item()");
  CHECK(wait_in("    log_metrics(step, torch.mean(losses).item())") == ".item()");
}

TEST_CASE("what may compute is no wait for a GPU") {
  for (const std::string line :
       {"", "helpers.build_index(sizes)", "while True: pass", "item()", "loss.items()",
        "total = float(build(sizes))", "as_float(loss)", "x.float()", "float(",
        "u, s, v = torch.linalg.svd(cov.cpu())", "best = np.argmin(f(2) + costs.cpu().numpy())",
        "x = scipy.optimize.minimize(f, (x0.tolist(), 3))"}) {
    INFO(line);
    CHECK(wait_in(line).empty());
  }
  CHECK(gpu_wait_of({}, "loss.item()").empty());
  CHECK(gpu_wait_of({{"/home/me/torch/data.py", 1, "synchronize"}}, "").empty());
}

TEST_CASE("the line of a frame is read as the worker finds it, and only from a file") {
  const tests::temporary_folder folder;
  const std::string file = folder.path + "/train.py";
  std::ofstream(file) << "import torch\nloss.item()\nlast";
  CHECK(line_in_source(getpid(), {file, 2, "step"}) == "loss.item()");
  CHECK(line_in_source(getpid(), {file, 3, "step"}) == "last");
  CHECK(line_in_source(getpid(), {file, 4, "step"}).empty());
  CHECK(line_in_source(getpid(), {folder.path, 1, "step"}).empty());
  CHECK(line_in_source(getpid(), {"/dev/zero", 1, "step"}).empty());
  CHECK(line_in_source(getpid(), {"<string>", 1, "step"}).empty());
}

}  // namespace ddprun::launcher::evidence
