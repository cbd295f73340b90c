#include "launcher/report/failure_text.hpp"

#include "launcher/report/signatures.hpp"
#include "tests/launcher/report/traceback.hpp"
#include "tests/support/catch.hpp"

#include <csignal>
#include <map>
#include <set>
#include <string_view>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::tests::peer_gone;
using ddprun::tests::raised;

namespace {

cause of(std::string tail, cause_class kind = cause_class::exit, int code = 1) {
  cause value;
  value.kind = kind;
  value.code = code;
  value.rank = 2;
  value.tail = std::move(tail);
  return value;
}

// For each row, a line as the program prints it.
const std::map<std::string, std::string> examples = {
    {"worker-late",
     "nccl_allreduce: rank 0 of 2, NCCL 2.30.7, GPU 0: wait for all_reduce of 4 float (call 3): "
     "not "
     "done in time; rank 1 has not come to this call (a peer is gone or late)"},
    {"worker-timeout",
     "toy: rank 0 of 2, store at 10.0.0.1:29500: all_reduce: Timed out waiting 2000ms for recv "
     "operation to complete; rank 1 has not come (a peer is gone or late)"},
    {"worker-waits",
     "roll_call: rank 0 of 3: store at 10.0.0.1:29400: WAIT 'a': still waiting after 60 s (a peer "
     "is "
     "gone or late)"},
    {"worker-absent",
     "toy: rank 0 of 4, store at 10.0.0.1:29500: cannot join the other ranks: wait timeout after "
     "2000ms, keys: /ddprun_worker/1/world/0/1; ranks 1 and 3 have not come (a peer is gone or "
     "late)"},
    {"worker-peer",
     "toy: rank 0 of 2, store at 10.0.0.1:29500: averaging the gradients: Connection closed by "
     "peer "
     "[10.0.0.2]:53410 (a peer is gone or late)"},
    {"gloo-peer-gone", peer_gone},
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
    {"store-never",
     "torch.distributed.DistNetworkError: The client socket has timed out after 2000ms while "
     "trying "
     "to connect to (10.0.0.1, 29500)."},
    {"barrier-timeout", "RuntimeError: Socket Timeout"},
    {"store-wait",
     "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: /default_pg/0//key"},
    {"barrier-monitored",
     "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms"},
    {"nccl-dump",
     "[Rank 1] Received a dump signal due to a collective timeout from rank 0 and we will try our "
     "best to dump the debug info."},
    {"nccl-rank-0",
     "[rank1]: . This may indicate a possible application crash on rank 0 or a network set up "
     "issue."},
    {"nccl-refused",
     "socketPollConnect: connect to 10.0.0.2<41233> returned Connection refused, exceeded error "
     "retry count"},
    {"nccl-refused-call", "Call to connect to 10.0.0.2<41233> failed : Connection refused"},
    {"gloo-closure", "RuntimeError: Application timeout caused pair closure"},
    {"gloo-mesh",
     "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/"
     "pair.cc:144] no error"},
    {"gloo-sizes",
     "  what():  [enforce fail at gloo/transport/tcp/pair.cc:464] op.preamble.length <= op.nbytes. "
     "2000 vs 1000. Received data size doesn't match expected size."},
    {"ddp-models",
     "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 "
     "has inconsistent 2 params."},
    {"ddp-unused",
     "RuntimeError: Expected to have finished reduction in the prior iteration before starting a "
     "new one."},
    {"gpu-none", "RuntimeError: Found no NVIDIA driver on your system. Please check"},
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
    {"gpu-access", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"},
    {"gpu-hidden", "RuntimeError: No CUDA GPUs are available"},
    {"no-module", "ModuleNotFoundError: No module named 'torchvision'"},
    {"fatal-segfault", "Fatal Python error: Segmentation fault"},
    {"fatal-abort", "Fatal Python error: Aborted"},
    {"fatal-bus-error", "Fatal Python error: Bus error"},
    {"fatal-division", "Fatal Python error: Floating-point exception"},
    {"fatal-instruction", "Fatal Python error: Illegal instruction"},
    {"too-many-files", "OSError: [Errno 24] Too many open files"},
};

// Advice is an instruction, because it follows "what to do: ".
bool is_imperative(std::string_view advice) {
  static const std::set<std::string_view> verbs = {"call",  "compare", "find", "install",
                                                   "look",  "raise",   "run",  "set",
                                                   "start", "update",  "use"};
  return verbs.contains(advice.substr(0, advice.find(' ')));
}

}  // namespace

TEST_CASE("each row of the signatures knows a line as it is printed, and no row hides it") {
  for (const signature* row = begin_signatures(); row != end_signatures(); ++row) {
    INFO(row->name);
    const auto example = examples.find(std::string(row->name));
    REQUIRE(example != examples.end());
    CHECK(find_signature(example->second) == row);
    CHECK(read_failure(of(raised("x.E: " + example->second))).known == row);
    CHECK_FALSE(row->meaning.empty());
    CHECK(is_imperative(row->advice));
    CHECK(row->meaning.size() + row->advice.size() < 200);
  }
  CHECK(examples.size() == static_cast<std::size_t>(end_signatures() - begin_signatures()));
}

TEST_CASE("an exception that tells of a peer's end is secondary, any other is not") {
  CHECK(read_failure(of(raised(peer_gone))).is_secondary);
  CHECK_FALSE(read_failure(of(raised("ValueError: loss is NaN"))).is_secondary);
  // A program that uses the network has such errors of its own.
  CHECK_FALSE(
      read_failure(of(raised("ConnectionResetError: Connection reset by peer"))).is_secondary);
  CHECK_FALSE(read_failure(of("")).is_secondary);
}

TEST_CASE("a rank that fails and then sees its peers go is no secondary failure") {
  const std::string chain =
      raised("ValueError: loss is NaN") +
      "\nDuring handling of the above exception, another exception occurred:\n\n" +
      raised(peer_gone);
  const failure_text words = read_failure(of(chain));
  CHECK_FALSE(words.is_secondary);
  CHECK(words.error == "ValueError: loss is NaN");
  // Messages about peers before an exception mean nothing, either.
  CHECK_FALSE(
      read_failure(of(std::string(peer_gone) + "\n" + raised("KeyError: 'x'"))).is_secondary);
}

TEST_CASE("a secondary failure stays one, whatever is made of it") {
  const std::string wrapped =
      raised(peer_gone) +
      "\nThe above exception was the direct cause of the following exception:\n\n" +
      raised("TrainingError: step failed");
  CHECK(read_failure(of(wrapped)).is_secondary);
  CHECK(read_failure(of(wrapped)).error.find("Connection closed by peer") != std::string::npos);
}

TEST_CASE("what ended the program is told, not what it had handled before") {
  const failure_text words =
      read_failure(of(raised("KeyError: 'lr'") +
                      "\nDuring handling of the above exception, another exception occurred:\n\n" +
                      raised("ConfigError: no learning rate")));
  CHECK(words.error == "ConfigError: no learning rate");
  CHECK_FALSE(words.is_secondary);
}

TEST_CASE("a chain whose beginning is lost may have begun with a cause") {
  const std::string rest =
      "g at layer 299\n\nDuring handling of the above exception, another exception occurred:\n\n" +
      raised(peer_gone);
  CHECK_FALSE(read_failure(of(rest)).is_secondary);
}

TEST_CASE("exceptions that ended nothing are left out") {
  for (const std::string above :
       {"Exception ignored in: <function Logger.__del__ at 0x7f>",
        "Exception in thread Thread-1:", "Error in atexit._run_exitfuncs:"}) {
    const failure_text words =
        read_failure(of(raised("ValueError: loss is NaN") + above + "\n" + raised(peer_gone)));
    CHECK(words.error == "ValueError: loss is NaN");
    CHECK_FALSE(words.is_secondary);
    CHECK(read_failure(of(raised(peer_gone) + above + "\n" +
                          raised("AssertionError: can only test a child process")))
              .is_secondary);
  }
  CHECK(read_failure(of("Process SpawnProcess-1:\n" + raised("KeyError: 'x'"))).error ==
        "KeyError: 'x'");
}

TEST_CASE("a group of exceptions is a cause if one of its parts is") {
  const std::string group =
      "  + Exception Group Traceback (most recent call last):\n"
      "  |   File \"/data/train.py\", line 7, in <module>\n"
      "  |     run()\n"
      "  | ExceptionGroup: two (2 sub-exceptions)\n"
      "  +-+---------------- 1 ----------------\n"
      "    | Traceback (most recent call last):\n"
      "    |   File \"/data/train.py\", line 3, in a\n"
      "    |     raise ValueError(\"loss is NaN\")\n"
      "    | ValueError: loss is NaN\n"
      "    +---------------- 2 ----------------\n"
      "    | Traceback (most recent call last):\n"
      "    |   File \"/data/train.py\", line 4, in b\n"
      "    |     all_reduce()\n    | " +
      std::string(peer_gone) + "\n    +------------------------------------\n";
  const failure_text words = read_failure(of(group));
  CHECK_FALSE(words.is_secondary);
  CHECK(words.error == "ValueError: loss is NaN");
}

TEST_CASE("exceptions with small letters are ones, too") {
  const failure_text words =
      read_failure(of(raised("struct.error: unpack requires a buffer of 8 bytes") +
                      "\nDuring handling of the above exception, another exception occurred:\n\n" +
                      raised(peer_gone)));
  CHECK(words.error == "struct.error: unpack requires a buffer of 8 bytes");
  CHECK_FALSE(words.is_secondary);
}

TEST_CASE("NCCL's last error tells more than the sentence above it") {
  const std::string refused =
      raised(
          "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, "
          "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3") +
      "ncclSystemError: System call (e.g. socket, malloc) or external library call failed.\n"
      "Last error:\n"
      "socketPollConnect: connect to 10.0.0.2<41233> returned Connection refused\n";
  CHECK(read_failure(of(refused)).known->name == "nccl-refused");
  CHECK(read_failure(of(refused)).is_secondary);
}

TEST_CASE("words of others that only look like ours are no effects") {
  CHECK_FALSE(read_failure(of(raised("OSError: [Errno 32] Broken pipe: '/data/DistilBert/f'")))
                  .is_secondary);
  CHECK_FALSE(read_failure(of(raised("botocore.X: Socket Timeout on endpoint"))).is_secondary);
  CHECK_FALSE(read_failure(of(raised("ConnectionRefusedError: [Errno 111] Connection refused")))
                  .is_secondary);
}

TEST_CASE("without an exception a known line tells, but of a worker that others have ended") {
  const std::string watchdog = examples.at("nccl-watchdog") + "\nterminate called\n";
  CHECK(read_failure(of(watchdog, cause_class::signal, SIGABRT)).is_secondary);
  // It crashes while it exits.
  CHECK(read_failure(of(watchdog, cause_class::signal, SIGSEGV)).is_secondary);
  CHECK_FALSE(read_failure(of(watchdog, cause_class::signal, SIGKILL)).is_secondary);
  CHECK_FALSE(read_failure(of(watchdog, cause_class::start, ENOENT)).is_secondary);
  CHECK_FALSE(read_failure(of("CUDA out of memory\n" + std::string(peer_gone))).is_secondary);
}

TEST_CASE("a failure is shown with the user's own frames and what it means") {
  const std::string tail =
      "Traceback (most recent call last):\n"
      "  File \"/data/train.py\", line 50, in <module>\n    main()\n"
      "  File \"/venv/lib/python3.11/site-packages/torch/x.py\", line 9, in forward\n    y()\n"
      "torch.OutOfMemoryError: CUDA out of memory.\n";
  CHECK(failure_lines(of(tail)) ==
        std::vector<std::string>{
            "where it failed, the innermost last:", "  /data/train.py:50 in <module>: main()",
            "that means: the GPU's memory is full; what to do: use a smaller batch; nvidia-smi "
            "shows who else uses this GPU"});
}

TEST_CASE("a failure without an exception is shown by its last lines, and never by many") {
  CHECK(failure_lines(of("loss is NaN\n")) ==
        std::vector<std::string>{"the last lines that it wrote to stderr:", "  loss is NaN"});
  std::string many;
  for (int line = 0; line < 100; ++line)
    many += std::to_string(line) + " " + std::string(300, 'x') + "\n";
  const auto lines = failure_lines(of(many));
  CHECK(lines.size() == 13);
  CHECK(lines.back().starts_with("  99 xxx"));
  for (const std::string& line : lines)
    CHECK(line.size() <= 210);
  std::string deep = "Traceback (most recent call last):\n";
  for (int line = 0; line < 100; ++line)
    deep += "  File \"a.py\", line " + std::to_string(line) + ", in f\n    f()\n";
  CHECK(failure_lines(of(deep + "RecursionError: too deep\n")).size() == 4);
}

TEST_CASE("each usual signal without words is explained, one row each") {
  const std::map<int, std::string> meant = {
      {SIGSEGV, "accessed invalid memory"},
      {SIGABRT, "aborted"},
      {SIGBUS, "a memory-mapped file had no room left"},
      {SIGFPE, "divided by zero"},
      {SIGILL, "built for another processor"},
      {SIGTRAP, "a check in C or C++ code failed"},
      {SIGSYS, "the container forbids"},
      {SIGKILL, "killed from outside"},
      {SIGTERM, "told to end from outside: by a person, the scheduler"},
      {SIGINT, "as by Ctrl-C"},
      {SIGQUIT, "core dump"},
      {SIGHUP, "its terminal or its session was closed"},
      {SIGPIPE, "that nobody reads any more"},
      {SIGXCPU, "processor time"},
      {SIGXFSZ, "beyond the limit of file size"},
      {SIGUSR1, "got SIGUSR1 and has no handler for it"},
      {SIGUSR2, "got SIGUSR2 and has no handler for it"},
      {SIGALRM, "an alarm"},
  };
  for (const auto& [signal, meaning] : meant) {
    INFO(signal);
    const auto lines = failure_lines(of("", cause_class::signal, signal));
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].starts_with("that means: "));
    CHECK(lines[0].find(meaning) != std::string::npos);
    CHECK(lines[0].find("; what to do: ") != std::string::npos);
    CHECK(is_imperative(signature_of_signal(signal)->advice));
    CHECK(lines[0].size() < 260);
  }
  CHECK(is_imperative(signature_of_oom_kill()->advice));
  CHECK(signature_of_signal(SIGCHLD) == nullptr);
  CHECK(failure_lines(of("", cause_class::exit, 1)).empty());
}

TEST_CASE("what a crashed program said before says more than that it crashed") {
  const std::string dump =
      "Fatal Python error: Aborted\n\nThread 0x00007f15d1000640 (most recent call first):\n"
      "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n\n"
      "Current thread 0x00007f15dcccc040 (most recent call first):\n"
      "  File \"/data/model.py\", line 7 in forward\n"
      "  File \"/data/train.py\", line 10 in <module>\n\nExtension modules: numpy (total: 1)\n";
  const failure_text alone = read_failure(of(dump, cause_class::signal, SIGABRT));
  CHECK(alone.known->name == "fatal-abort");
  REQUIRE(alone.frames.size() == 2);
  CHECK(alone.frames[0].place == "/data/train.py:10 in <module>");
  CHECK(alone.frames[1].place == "/data/model.py:7 in forward");
  const failure_text after =
      read_failure(of(examples.at("nccl-watchdog") + "\n" + dump, cause_class::signal, SIGABRT));
  CHECK(after.known->name == "nccl-watchdog");
  CHECK(after.is_secondary);
}

TEST_CASE("an OOM kill is distinguished from a manual kill") {
  cause killed = of("", cause_class::signal, SIGKILL);
  CHECK(read_failure(killed).known->name == "killed");
  killed.text = "out of memory: the kernel has just killed a process of this job";
  CHECK(read_failure(killed).known->name == "oom-killed");
}
