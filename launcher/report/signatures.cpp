#include "launcher/report/signatures.hpp"

#include "rendezvous/base/lost_peer.hpp"

#include <csignal>
#include <iterator>

namespace ddprun::launcher {
namespace {

constexpr std::string_view look_at_the_first =
    "look for the rank that ended, or hung, before this one";

// Used for the signal, and for faulthandler's message about it.
constexpr std::string_view not_own_memory =
    "it accessed invalid memory: a bug in C or C++ code, for example in an extension";
constexpr std::string_view say_where =
    "find the place: PYTHONFAULTHANDLER=1 shows it in Python; coredumpctl, or ulimit -c unlimited, "
    "in C";
constexpr std::string_view gave_up =
    "the program, or a library in it, aborted: a check failed, or a C++ exception was not caught";
constexpr std::string_view say_why =
    "look at what it wrote before; PYTHONFAULTHANDLER=1 shows where it happened";
constexpr std::string_view no_file_memory =
    "a memory-mapped file had no room left, most often in /dev/shm";
constexpr std::string_view divided = "an integer was divided by zero in C or C++ code";
constexpr std::string_view other_processor = "a program was built for another processor";
constexpr std::string_view make_room =
    "look at df /dev/shm; give the container more (docker --shm-size, an emptyDir of medium "
    "Memory)";
constexpr std::string_view compare_processors =
    "compare lscpu on this node with that of the host where it was built";

// {name, first, second, from, meaning, advice}
constexpr signature rows[] = {
    {"worker-late", lost_peer_mark, "in time", follows::silence,
     "another rank did not take part in this operation in time", look_at_the_first},
    {"worker-timeout", lost_peer_mark, "imed out", follows::silence,
     "another rank did not take part in this operation in time", look_at_the_first},
    {"worker-waits", lost_peer_mark, "still waiting", follows::silence,
     "another rank did not reach the same point in time", look_at_the_first},
    {"worker-absent", lost_peer_mark, "not come", follows::silence,
     "another rank did not reach the same point in time", look_at_the_first},
    {"worker-peer", lost_peer_mark, "", follows::end,
     "another rank, or the process that serves the job's store, is gone", look_at_the_first},
    {"gloo-peer-gone", "gloo/transport", "Connection closed by peer", follows::end,
     "another rank ended, or closed its connections", look_at_the_first},
    {"gloo-peer-reset", "gloo/transport", "Connection reset by peer", follows::end,
     "another rank ended, or closed its connections", look_at_the_first},
    {"gloo-broken-pipe", "gloo/transport", "Broken pipe", follows::end,
     "another rank ended, or closed its connections", look_at_the_first},
    {"gloo-timeout", "gloo/transport", "imed out waiting", follows::silence,
     "another rank did not take part in this operation in time", look_at_the_first},
    {"nccl-watchdog", "Watchdog caught collective operation timeout", "", follows::silence,
     "another rank did not enter this collective in time", look_at_the_first},
    {"nccl-remote", "ncclRemoteError", "", follows::end,
     "another rank ended, or the network between two of them broke", look_at_the_first},
    {"nccl-remote-exited", "remote process exited", "", follows::end,
     "another rank ended, or the network between two of them broke", look_at_the_first},
    {"nccl-aborted", "NCCL communicator was aborted", "", follows::end,
     "NCCL was aborted in this rank because of another rank", look_at_the_first},
    {"nccl-peer-gone", "Connection closed by remote peer", "", follows::end,
     "another rank ended, or closed its connections", look_at_the_first},
    {"store-peer-gone", "Connection was likely closed", "", follows::end,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-broken-pipe", "torch.distributed.Dist", "Broken pipe", follows::end,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-reset", "torch.distributed.Dist", "Connection reset by peer", follows::end,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-timeout", "DistStoreError", "imed out", follows::silence,
     "another rank did not reach the same point in time", look_at_the_first},
    {"store-never", "The client socket has timed out", "", follows::silence,
     "the process that serves the job's store has not started, or cannot be reached",
     "look for the rank that ended before this one; check MASTER_ADDR, MASTER_PORT and firewalls"},
    {"barrier-timeout", "RuntimeError: Socket Timeout", "", follows::silence,
     "another rank did not reach the same point in time", look_at_the_first},
    {"store-wait", "wait timeout after", "", follows::silence,
     "another rank did not reach the same point in time", look_at_the_first},
    {"barrier-monitored", "monitoredBarrier", "", follows::silence,
     "the ranks that it names did not reach the same point in time", look_at_the_first},
    {"nccl-dump", "Received a dump signal due to a collective timeout", "", follows::silence,
     "another rank did not enter a collective in time", look_at_the_first},
    // About thirty lines of C++ stack above it can push out the error itself.
    {"nccl-rank-0", "This may indicate a possible application crash on rank 0", "",
     follows::silence, "rank 0 did not create the NCCL communicator in time", look_at_the_first},
    {"nccl-refused", "socketPollConnect", "Connection refused", follows::end,
     "another rank is gone, or it cannot be reached over the network", look_at_the_first},
    {"nccl-refused-call", "Call to connect", "Connection refused", follows::end,
     "another rank is gone, or it cannot be reached over the network", look_at_the_first},
    {"gloo-closure", "Application timeout caused pair closure", "", follows::silence,
     "another rank did not take part in this operation in time", look_at_the_first},
    {"gloo-mesh", "Gloo connectFullMesh failed", "", follows::end,
     "another rank was gone, or could not be reached, when the group was made", look_at_the_first},
    {"gloo-sizes", "op.preamble.length <= op.nbytes", "", follows::nothing,
     "the ranks called an operation with tensors of different sizes, or different operations",
     "set TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares them on all ranks"},
    {"ddp-models", "DDP expects same model across all ranks", "", follows::nothing,
     "the ranks have built different models",
     "look for what differs by rank before the model is built"},
    {"ddp-unused", "Expected to have finished reduction in the prior iteration", "",
     follows::nothing, "some parameters were not used to compute the loss",
     "use DistributedDataParallel(..., find_unused_parameters=True), or remove them"},
    {"cuda-memory", "CUDA out of memory", "", follows::nothing, "the GPU's memory is full",
     "use a smaller batch; nvidia-smi shows who else uses this GPU"},
    {"cuda-memory-code", "CUDA error: out of memory", "", follows::nothing,
     "the GPU's memory is full", "use a smaller batch; nvidia-smi shows who else uses this GPU"},
    {"shm-nccl", "/dev/shm/nccl", "", follows::nothing, "NCCL found no room in /dev/shm",
     make_room},
    {"shm-loader", "DataLoader worker", "Bus error", follows::nothing, "/dev/shm is full",
     "look at df /dev/shm; give the container more (docker --shm-size), or use fewer loader "
     "workers"},
    {"loader-killed", "DataLoader worker", "killed by signal", follows::nothing,
     "a process that loads data was killed, most often because memory ran out",
     "look at dmesg; use fewer loader workers, or add memory"},
    {"host-memory", "DefaultCPUAllocator: can't allocate memory", "", follows::nothing,
     "the host's memory is full",
     "look at free -h; use a smaller batch, or fewer workers per node"},
    {"disk-full", "No space left on device", "", follows::nothing, "a disk is full",
     "look at df and df -i, and make room"},
    {"gpu-index", "CUDA error: invalid device ordinal", "", follows::nothing,
     "this worker has no GPU of that number",
     "start at most one worker per GPU (--nproc-per-node=gpu), and select the GPU by LOCAL_RANK"},
    {"gpu-shared", "Duplicate GPU detected", "", follows::nothing, "two ranks use one GPU",
     "call torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before init_process_group()"},
    {"gpu-fork", "Cannot re-initialize CUDA in forked subprocess", "", follows::nothing,
     "CUDA was used before a fork", "set multiprocessing's start method to spawn"},
    {"gpu-assert", "device-side assert triggered", "", follows::nothing,
     "a GPU kernel got an invalid value, such as a class label that is out of range",
     "run with CUDA_LAUNCH_BLOCKING=1 to see where"},
    {"gpu-access", "an illegal memory access was encountered", "", follows::nothing,
     "a GPU kernel accessed invalid memory",
     "run with CUDA_LAUNCH_BLOCKING=1 to see where; compute-sanitizer names the kernel"},
    {"gpu-kernel", "no kernel image is available", "", follows::nothing,
     "this PyTorch was not built for this GPU", "install a build for the architecture of this GPU"},
    {"gpu-none", "Found no NVIDIA driver on your system", "", follows::nothing,
     "this node has no working GPU, or the container does not see it",
     "run nvidia-smi on this node; give the container its GPUs (docker --gpus, nvidia.com/gpu)"},
    {"gpu-hidden", "No CUDA GPUs are available", "", follows::nothing,
     "no GPU is visible to this worker",
     "look at CUDA_VISIBLE_DEVICES, and run nvidia-smi on this node"},
    {"gpu-driver", "NVIDIA driver on your system is too old", "", follows::nothing,
     "the driver is older than this PyTorch's CUDA",
     "update the driver, or install an older build of PyTorch"},
    {"nccl-interface", "Bootstrap : no socket interface found", "", follows::nothing,
     "NCCL found no network interface", "set NCCL_SOCKET_IFNAME; ip -br addr lists the interfaces"},
    {"nccl-version", "Mismatched NCCL version", "", follows::nothing,
     "the nodes have different versions of NCCL", "use one image on all nodes"},
    {"nccl-cuda", "unhandled cuda error", "", follows::nothing, "a CUDA call of NCCL failed",
     "run with NCCL_DEBUG=INFO, and look at dmesg | grep -i xid"},
    {"nccl-system", "unhandled system error", "", follows::nothing, "a system call of NCCL failed",
     "run with NCCL_DEBUG=WARN; look at ulimit -n, ulimit -l and df /dev/shm"},
    {"gloo-host-name", "Unable to resolve hostname to a (local) address", "", follows::nothing,
     "Gloo does not find this host's own address",
     "set GLOO_SOCKET_IFNAME=INTERFACE, or put the host's name into /etc/hosts"},
    {"port-in-use", "EADDRINUSE", "", follows::nothing, "a port is used by another program",
     "find that program with ss -ltnp; end it, or choose another port"},
    {"port-in-use-words", "Address already in use", "", follows::nothing,
     "a port is used by another program",
     "find that program with ss -ltnp; end it, or choose another port"},
    {"no-module", "ModuleNotFoundError: No module named", "", follows::nothing,
     "the Python of this worker does not have this module",
     "install it there, or choose another Python with PYTHON_EXEC"},
    {"too-many-files", "Too many open files", "", follows::nothing,
     "the limit of open files is reached", "raise it (ulimit -n)"},
    {"fatal-segfault", "Fatal Python error: Segmentation fault", "", follows::nothing,
     not_own_memory, say_where},
    {"fatal-abort", "Fatal Python error: Aborted", "", follows::nothing, gave_up, say_why},
    {"fatal-bus-error", "Fatal Python error: Bus error", "", follows::nothing, no_file_memory,
     make_room},
    {"fatal-division", "Fatal Python error: Floating", "", follows::nothing, divided, say_where},
    {"fatal-instruction", "Fatal Python error: Illegal instruction", "", follows::nothing,
     other_processor, compare_processors},
};

struct of_signal {
  int signal;
  signature row;
};

constexpr of_signal signals[] = {
    {SIGSEGV, {"segfault", "", "", follows::nothing, not_own_memory, say_where}},
    {SIGABRT, {"abort", "", "", follows::nothing, gave_up, say_why}},
    {SIGBUS, {"bus-error", "", "", follows::nothing, no_file_memory, make_room}},
    {SIGFPE, {"division", "", "", follows::nothing, divided, say_where}},
    {SIGILL,
     {"illegal-instruction", "", "", follows::nothing, other_processor, compare_processors}},
    {SIGTRAP,
     {"trap", "", "", follows::nothing, "a check in C or C++ code failed, or a breakpoint was left",
      say_where}},
    {SIGSYS,
     {"forbidden-call", "", "", follows::nothing,
      "it made a system call that the container forbids",
      "look at the container's seccomp profile"}},
    {SIGKILL,
     {"killed", "", "", follows::nothing,
      "it was killed from outside: by a person, or for a limit by the scheduler or the container "
      "runtime",
      "look at dmesg, and at the limits of the job and of the container"}},
    {SIGTERM,
     {"terminated", "", "", follows::nothing,
      "it was told to end from outside: by a person, the scheduler, or the container runtime",
      "look at the scheduler's log of this node"}},
    {SIGINT,
     {"interrupted", "", "", follows::nothing, "it was interrupted from outside, as by Ctrl-C",
      "look for what sends signals to this process alone"}},
    {SIGQUIT,
     {"quit", "", "", follows::nothing, "it was told from outside to end with a core dump",
      "look for what sends signals to this process alone"}},
    {SIGHUP,
     {"hang-up", "", "", follows::nothing, "its terminal or its session was closed",
      "start the job in tmux, with nohup, or through a batch system"}},
    {SIGPIPE,
     {"broken-pipe", "", "", follows::nothing,
      "it wrote to a pipe or a connection that nobody reads any more",
      "look at where its output goes; Python ignores this signal, C and C++ programs have to do so "
      "too"}},
    {SIGXCPU,
     {"cpu-time", "", "", follows::nothing, "it has used up its limit of processor time",
      "raise that limit (ulimit -t)"}},
    {SIGXFSZ,
     {"file-size", "", "", follows::nothing, "a file grew beyond the limit of file size",
      "raise that limit (ulimit -f)"}},
    {SIGUSR1,
     {"user-signal-1", "", "", follows::nothing,
      "it got SIGUSR1 and has no handler for it; batch systems send that before a job's time limit",
      "look at the job's time limit, and at sbatch --signal"}},
    {SIGUSR2,
     {"user-signal-2", "", "", follows::nothing,
      "it got SIGUSR2 and has no handler for it; batch systems send that before a job's time limit",
      "look at the job's time limit, and at sbatch --signal"}},
    {SIGALRM,
     {"alarm", "", "", follows::nothing,
      "an alarm that it had set expired, and it has no handler for it",
      "look for what calls alarm() or setitimer() in it"}},
};

bool fits(const signature& row, std::string_view line) {
  return line.find(row.first) != std::string_view::npos &&
         line.find(row.second) != std::string_view::npos;
}

}  // namespace

const signature* find_signature(std::string_view line) {
  for (const signature& row : rows) {
    if (fits(row, line)) return &row;
  }
  return nullptr;
}

const signature* signature_of_signal(int signal) {
  for (const of_signal& each : signals) {
    if (each.signal == signal) return &each.row;
  }
  return nullptr;
}

const signature* signature_of_oom_kill() {
  static constexpr signature row = {
      "oom-killed",
      "",
      "",
      follows::nothing,
      "memory ran out, and the kernel killed the process that used the most",
      "look at free -h, and at the limits of the job and of the container; use fewer workers per "
      "node, or fewer loader workers"};
  return &row;
}

const signature* begin_signatures() {
  return std::begin(rows);
}

const signature* end_signatures() {
  return std::end(rows);
}

}  // namespace ddprun::launcher
