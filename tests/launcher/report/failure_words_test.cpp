#include "launcher/report/failure_words.hpp"

#include "tests/support/catch.hpp"

#include <csignal>
#include <map>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

cause of(std::string tail, cause_class kind = cause_class::exit, int code = 1) {
  cause value;
  value.kind = kind;
  value.code = code;
  value.rank = 2;
  value.tail = std::move(tail);
  return value;
}

std::string raised(const std::string& error) {
  return "Traceback (most recent call last):\n  File \"/data/train.py\", line 7, in <module>\n"
         "    step()\n" +
         error + "\n";
}

constexpr const char* gone =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
    "[127.0.0.1]:53410";

// A line as the program prints it, for each row.
const std::map<std::string, std::string> examples = {
    {"gloo-peer-gone", gone},
    {"gloo-peer-reset",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Read error "
     "[10.0.0.2]:41: Connection reset by peer"},
    {"gloo-broken-pipe",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] write: Broken pipe"},
    {"gloo-timeout",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
     "waiting 30000ms for recv operation to complete"},
    {"nccl-watchdog",
     "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE) "
     "ran for 600001 milliseconds before timing out."},
    {"nccl-remote", "ncclRemoteError: A call failed possibly due to a network error"},
    {"nccl-remote-exited", "Last error: remote process exited or there was a network error"},
    {"nccl-aborted", "RuntimeError: NCCL communicator was aborted on rank 1."},
    {"nccl-peer-gone", "socketProgress: Connection closed by remote peer node-b<39482>"},
    {"store-peer-gone",
     "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely "
     "closed. Did the remote server shutdown or crash?"},
    {"store-broken-pipe", "torch.distributed.DistNetworkError: Broken pipe"},
    {"store-reset", "torch.distributed.DistNetworkError: Connection reset by peer"},
    {"store-timeout",
     "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 "
     "clients joined."},
    {"barrier-timeout", "RuntimeError: Socket Timeout"},
    {"cuda-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."},
    {"cuda-memory-code", "RuntimeError: CUDA error: out of memory"},
    {"shm-nccl", "Error while creating shared memory segment /dev/shm/nccl-x4dYs1 (size 9637888)"},
    {"shm-loader",
     "RuntimeError: DataLoader worker (pid 17) is killed by signal: Bus error. It is possible that "
     "dataloader's workers are out of shared memory."},
    {"loader-killed", "RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed."},
    {"host-memory",
     "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't "
     "allocate memory: you tried to allocate 4000000000000 bytes."},
    {"disk-full", "OSError: [Errno 28] No space left on device"},
    {"gpu-index", "RuntimeError: CUDA error: invalid device ordinal"},
    {"gpu-shared",
     "ncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000"},
    {"gpu-fork",
     "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
     "multiprocessing, you must use the 'spawn' start method"},
    {"gpu-assert", "RuntimeError: CUDA error: device-side assert triggered"},
    {"gpu-kernel", "RuntimeError: CUDA error: no kernel image is available for execution"},
    {"gpu-driver",
     "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."},
    {"nccl-interface", "NCCL WARN Bootstrap : no socket interface found"},
    {"nccl-version", "NCCL WARN Mismatched NCCL version detected : rank 0 version 22703"},
    {"nccl-cuda", "ncclUnhandledCudaError: Call to CUDA function failed. unhandled cuda error"},
    {"nccl-system", "ncclSystemError: System call failed. unhandled system error"},
    {"gloo-host-name",
     "[W] Unable to resolve hostname to a (local) address. Using the loopback address as "
     "fallback."},
    {"port-in-use",
     "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
     "network address. port: 29500, code: -98, name: EADDRINUSE, message: address already in use"},
    {"port-in-use-words", "OSError: [Errno 98] Address already in use"},
    {"no-module", "ModuleNotFoundError: No module named 'torchvision'"},
    {"too-many-files", "OSError: [Errno 24] Too many open files"},
};

}  // namespace

TEST_CASE("each row of the signatures knows a line as it is printed, and no row hides it") {
  for (const signature* row = begin_signatures(); row != end_signatures(); ++row) {
    INFO(row->name);
    const auto example = examples.find(std::string(row->name));
    REQUIRE(example != examples.end());
    CHECK(find_signature(example->second) == row);
    CHECK(read_failure(of(raised("x.E: " + example->second))).known == row);
    CHECK_FALSE(row->meaning.empty());
    CHECK_FALSE(row->advice.empty());
    CHECK(row->meaning.size() + row->advice.size() < 200);
  }
  CHECK(examples.size() == static_cast<std::size_t>(end_signatures() - begin_signatures()));
}

TEST_CASE("an exception that tells of a peer's end is an effect, any other is none") {
  CHECK(read_failure(of(raised(gone))).is_effect);
  CHECK_FALSE(read_failure(of(raised("ValueError: loss is NaN"))).is_effect);
  // A program that talks to others has such errors of its own.
  CHECK_FALSE(read_failure(of(raised("ConnectionResetError: Connection reset by peer"))).is_effect);
  CHECK_FALSE(read_failure(of("")).is_effect);
}

TEST_CASE("who fails and then sees its peers go is no effect") {
  const std::string chain =
      raised("ValueError: loss is NaN") +
      "\nDuring handling of the above exception, another exception occurred:\n\n" + raised(gone);
  const failure_words words = read_failure(of(chain));
  CHECK_FALSE(words.is_effect);
  CHECK(words.error == "ValueError: loss is NaN");
  // Words about peers before an exception say nothing either.
  CHECK_FALSE(read_failure(of(std::string(gone) + "\n" + raised("KeyError: 'x'"))).is_effect);
}

TEST_CASE("without an exception a known line tells, but of a worker that did something forbidden") {
  const std::string watchdog = examples.at("nccl-watchdog") + "\nterminate called\n";
  CHECK(read_failure(of(watchdog, cause_class::signal, SIGABRT)).is_effect);
  CHECK_FALSE(read_failure(of(watchdog, cause_class::signal, SIGSEGV)).is_effect);
  CHECK_FALSE(read_failure(of(watchdog, cause_class::start, ENOENT)).is_effect);
  CHECK_FALSE(read_failure(of("CUDA out of memory\n" + std::string(gone))).is_effect);
}

TEST_CASE("a failure is shown with the user's own frames and what it means") {
  const std::string tail =
      "Traceback (most recent call last):\n"
      "  File \"/data/train.py\", line 50, in <module>\n    main()\n"
      "  File \"/venv/lib/python3.11/site-packages/torch/x.py\", line 9, in forward\n    y()\n"
      "torch.OutOfMemoryError: CUDA out of memory.\n";
  CHECK(failure_lines(of(tail)) ==
        std::vector<std::string>{
            "where it failed, the innermost last:", "  | /data/train.py:50 in <module>: main()",
            "that means: the GPU's memory is full; check: take a smaller batch; nvidia-smi shows "
            "who else uses this GPU"});
}

TEST_CASE("a failure without an exception is shown by its last lines, and never by many") {
  CHECK(failure_lines(of("loss is NaN\n")) ==
        std::vector<std::string>{"the last lines that it wrote to stderr:", "  | loss is NaN"});
  std::string many;
  for (int line = 0; line < 100; ++line)
    many += std::to_string(line) + " " + std::string(300, 'x') + "\n";
  const auto lines = failure_lines(of(many));
  CHECK(lines.size() == 13);
  CHECK(lines.back().starts_with("  | 99 xxx"));
  for (const std::string& line : lines)
    CHECK(line.size() <= 210);
  std::string deep = "Traceback (most recent call last):\n";
  for (int line = 0; line < 100; ++line)
    deep += "  File \"a.py\", line " + std::to_string(line) + ", in f\n    f()\n";
  CHECK(failure_lines(of(deep + "RecursionError: too deep\n")).size() == 4);
}

TEST_CASE("a signal without words is explained where that is known") {
  CHECK(failure_lines(of("", cause_class::signal, SIGBUS)) ==
        std::vector<std::string>{"that means: memory that is a file could not be had, most often "
                                 "/dev/shm; check: df /dev/shm"});
  CHECK(failure_lines(of("", cause_class::signal, SIGKILL)).empty());
  CHECK(failure_lines(of("", cause_class::exit, 1)).empty());
}
