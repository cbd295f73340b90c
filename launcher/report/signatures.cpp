#include "launcher/report/signatures.hpp"

#include <csignal>
#include <iterator>

namespace ddprun::launcher {
namespace {

constexpr std::string_view look_at_the_first =
    "look for the rank that ended, or stood still, before this one";

// {name, first, second, is_effect, meaning, advice}
constexpr signature rows[] = {
    // ---- the end or the silence of another rank ----
    {"gloo-peer-gone", "gloo/transport", "Connection closed by peer", true,
     "another rank ended, or closed its connections", look_at_the_first},
    {"gloo-peer-reset", "gloo/transport", "Connection reset by peer", true,
     "another rank ended, or closed its connections", look_at_the_first},
    {"gloo-broken-pipe", "gloo/transport", "Broken pipe", true,
     "another rank ended, or closed its connections", look_at_the_first},
    {"gloo-timeout", "gloo/transport", "imed out waiting", true,
     "another rank did not take part in this operation in time", look_at_the_first},
    {"nccl-watchdog", "Watchdog caught collective operation timeout", "", true,
     "another rank did not enter this collective in time", look_at_the_first},
    {"nccl-remote", "ncclRemoteError", "", true,
     "another rank ended, or the network between two of them broke", look_at_the_first},
    {"nccl-remote-exited", "remote process exited", "", true,
     "another rank ended, or the network between two of them broke", look_at_the_first},
    {"nccl-aborted", "NCCL communicator was aborted", "", true,
     "this rank's NCCL was given up because of another rank", look_at_the_first},
    {"nccl-peer-gone", "Connection closed by remote peer", "", true,
     "another rank ended, or closed its connections", look_at_the_first},
    {"store-peer-gone", "Connection was likely closed", "", true,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-broken-pipe", "Dist", "Broken pipe", true,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-reset", "Dist", "Connection reset by peer", true,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-timeout", "DistStoreError", "imed out", true,
     "another rank did not come to the same point in time", look_at_the_first},
    {"barrier-timeout", "Socket Timeout", "", true,
     "another rank did not come to the same point in time", look_at_the_first},
    // ---- memory ----
    {"cuda-memory", "CUDA out of memory", "", false, "the GPU's memory is full",
     "take a smaller batch; nvidia-smi shows who else uses this GPU"},
    {"cuda-memory-code", "CUDA error: out of memory", "", false, "the GPU's memory is full",
     "take a smaller batch; nvidia-smi shows who else uses this GPU"},
    {"shm-nccl", "/dev/shm/nccl", "", false, "NCCL found no room in /dev/shm",
     "df /dev/shm; give the container more (docker --shm-size, an emptyDir of medium Memory)"},
    {"shm-loader", "DataLoader worker", "Bus error", false, "/dev/shm is full",
     "df /dev/shm; give the container more (docker --shm-size), or take fewer loader workers"},
    {"loader-killed", "DataLoader worker", "killed by signal", false,
     "a process that loads data was killed, most often for want of memory",
     "dmesg; fewer loader workers, or more memory"},
    {"host-memory", "DefaultCPUAllocator: can't allocate memory", "", false,
     "the host's memory is full", "free -h; take a smaller batch, or fewer workers a node"},
    {"disk-full", "No space left on device", "", false, "a disk is full", "df, and df -i"},
    // ---- GPUs and NCCL ----
    {"gpu-index", "CUDA error: invalid device ordinal", "", false,
     "this worker has no GPU of that number",
     "start at most one worker a GPU (--nproc-per-node=gpu), and select the GPU by LOCAL_RANK"},
    {"gpu-shared", "Duplicate GPU detected", "", false, "two ranks use one GPU",
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before the process group is made"},
    {"gpu-fork", "Cannot re-initialize CUDA in forked subprocess", "", false,
     "CUDA was used before a fork", "set multiprocessing's start method to spawn"},
    {"gpu-assert", "device-side assert triggered", "", false,
     "a kernel found a value that it cannot work with, such as a label beyond the classes",
     "run with CUDA_LAUNCH_BLOCKING=1 to see where"},
    {"gpu-kernel", "no kernel image is available", "", false,
     "this PyTorch was not built for this GPU", "install a build for its architecture"},
    {"gpu-driver", "NVIDIA driver on your system is too old", "", false,
     "the driver is older than this PyTorch's CUDA", "update it, or install an older build"},
    {"nccl-interface", "Bootstrap : no socket interface found", "", false,
     "NCCL found no network interface", "NCCL_SOCKET_IFNAME; ip -br addr shows what there is"},
    {"nccl-version", "Mismatched NCCL version", "", false, "the nodes have different NCCLs",
     "use one image on all nodes"},
    {"nccl-cuda", "unhandled cuda error", "", false, "CUDA failed below NCCL",
     "run with NCCL_DEBUG=INFO; dmesg | grep -i xid"},
    {"nccl-system", "unhandled system error", "", false, "the system refused NCCL something",
     "run with NCCL_DEBUG=WARN; ulimit -n, ulimit -l, df /dev/shm"},
    // ---- names, ports and files ----
    {"gloo-host-name", "Unable to resolve hostname to a (local) address", "", false,
     "Gloo does not find this host's own address",
     "GLOO_SOCKET_IFNAME=INTERFACE, or the host's name in /etc/hosts"},
    {"port-in-use", "EADDRINUSE", "", false, "a port is used by another program", "ss -ltnp"},
    {"port-in-use-words", "Address already in use", "", false, "a port is used by another program",
     "ss -ltnp"},
    {"no-module", "ModuleNotFoundError: No module named", "", false,
     "that Python does not have this module",
     "is it the right one? PYTHON_EXEC names the Python of the workers"},
    {"too-many-files", "Too many open files", "", false, "the limit of open files is reached",
     "ulimit -n"},
};

constexpr signature bus_error = {
    "bus-error",  "", "", false, "memory that is a file could not be had, most often /dev/shm",
    "df /dev/shm"};
constexpr signature illegal = {"illegal-instruction",
                               "",
                               "",
                               false,
                               "a program was built for another processor",
                               "lscpu on this node, and where it was built"};

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
  switch (signal) {
    case SIGBUS:
      return &bus_error;
    case SIGILL:
      return &illegal;
    default:
      return nullptr;
  }
}

const signature* begin_signatures() {
  return std::begin(rows);
}

const signature* end_signatures() {
  return std::end(rows);
}

}  // namespace ddprun::launcher
