#include "launcher/report/signatures.hpp"

#include <csignal>
#include <iterator>

namespace ddprun::launcher {
namespace {

constexpr std::string_view look_at_the_first =
    "look for the rank that ended, or stood still, before this one";

// {name, first, second, from, meaning, advice}
constexpr signature rows[] = {
    // ---- the end or the silence of another rank ----
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
     "this rank's NCCL was given up because of another rank", look_at_the_first},
    {"nccl-peer-gone", "Connection closed by remote peer", "", follows::end,
     "another rank ended, or closed its connections", look_at_the_first},
    {"store-peer-gone", "Connection was likely closed", "", follows::end,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-broken-pipe", "torch.distributed.Dist", "Broken pipe", follows::end,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-reset", "torch.distributed.Dist", "Connection reset by peer", follows::end,
     "the process that serves the job's store ended", look_at_the_first},
    {"store-timeout", "DistStoreError", "imed out", follows::silence,
     "another rank did not come to the same point in time", look_at_the_first},
    {"barrier-timeout", "RuntimeError: Socket Timeout", "", follows::silence,
     "another rank did not come to the same point in time", look_at_the_first},
    {"store-wait", "wait timeout after", "", follows::silence,
     "another rank did not come to the same point in time", look_at_the_first},
    {"barrier-monitored", "monitoredBarrier", "", follows::silence,
     "the ranks that it names did not come to the same point in time", look_at_the_first},
    {"nccl-dump", "Received a dump signal due to a collective timeout", "", follows::silence,
     "another rank did not enter a collective in time", look_at_the_first},
    {"nccl-refused", "socketPollConnect", "Connection refused", follows::end,
     "another rank is gone, or the network lets nobody through to it", look_at_the_first},
    {"nccl-refused-call", "Call to connect", "Connection refused", follows::end,
     "another rank is gone, or the network lets nobody through to it", look_at_the_first},
    {"gloo-closure", "Application timeout caused pair closure", "", follows::silence,
     "another rank did not take part in this operation in time", look_at_the_first},
    {"gloo-mesh", "Gloo connectFullMesh failed", "", follows::end,
     "another rank was gone, or could not be reached, when the group was made", look_at_the_first},
    // ---- memory ----
    {"cuda-memory", "CUDA out of memory", "", follows::nothing, "the GPU's memory is full",
     "take a smaller batch; nvidia-smi shows who else uses this GPU"},
    {"cuda-memory-code", "CUDA error: out of memory", "", follows::nothing,
     "the GPU's memory is full", "take a smaller batch; nvidia-smi shows who else uses this GPU"},
    {"shm-nccl", "/dev/shm/nccl", "", follows::nothing, "NCCL found no room in /dev/shm",
     "df /dev/shm; give the container more (docker --shm-size, an emptyDir of medium Memory)"},
    {"shm-loader", "DataLoader worker", "Bus error", follows::nothing, "/dev/shm is full",
     "df /dev/shm; give the container more (docker --shm-size), or take fewer loader workers"},
    {"loader-killed", "DataLoader worker", "killed by signal", follows::nothing,
     "a process that loads data was killed, most often for want of memory",
     "dmesg; fewer loader workers, or more memory"},
    {"host-memory", "DefaultCPUAllocator: can't allocate memory", "", follows::nothing,
     "the host's memory is full", "free -h; take a smaller batch, or fewer workers a node"},
    {"disk-full", "No space left on device", "", follows::nothing, "a disk is full",
     "df, and df -i"},
    // ---- GPUs and NCCL ----
    {"gpu-index", "CUDA error: invalid device ordinal", "", follows::nothing,
     "this worker has no GPU of that number",
     "start at most one worker a GPU (--nproc-per-node=gpu), and select the GPU by LOCAL_RANK"},
    {"gpu-shared", "Duplicate GPU detected", "", follows::nothing, "two ranks use one GPU",
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before the process group is made"},
    {"gpu-fork", "Cannot re-initialize CUDA in forked subprocess", "", follows::nothing,
     "CUDA was used before a fork", "set multiprocessing's start method to spawn"},
    {"gpu-assert", "device-side assert triggered", "", follows::nothing,
     "a kernel found a value that it cannot work with, such as a label beyond the classes",
     "run with CUDA_LAUNCH_BLOCKING=1 to see where"},
    {"gpu-kernel", "no kernel image is available", "", follows::nothing,
     "this PyTorch was not built for this GPU", "install a build for its architecture"},
    {"gpu-driver", "NVIDIA driver on your system is too old", "", follows::nothing,
     "the driver is older than this PyTorch's CUDA", "update it, or install an older build"},
    {"nccl-interface", "Bootstrap : no socket interface found", "", follows::nothing,
     "NCCL found no network interface", "NCCL_SOCKET_IFNAME; ip -br addr shows what there is"},
    {"nccl-version", "Mismatched NCCL version", "", follows::nothing,
     "the nodes have different NCCLs", "use one image on all nodes"},
    {"nccl-cuda", "unhandled cuda error", "", follows::nothing, "CUDA failed below NCCL",
     "run with NCCL_DEBUG=INFO; dmesg | grep -i xid"},
    {"nccl-system", "unhandled system error", "", follows::nothing,
     "the system refused NCCL something",
     "run with NCCL_DEBUG=WARN; ulimit -n, ulimit -l, df /dev/shm"},
    // ---- names, ports and files ----
    {"gloo-host-name", "Unable to resolve hostname to a (local) address", "", follows::nothing,
     "Gloo does not find this host's own address",
     "GLOO_SOCKET_IFNAME=INTERFACE, or the host's name in /etc/hosts"},
    {"port-in-use", "EADDRINUSE", "", follows::nothing, "a port is used by another program",
     "ss -ltnp"},
    {"port-in-use-words", "Address already in use", "", follows::nothing,
     "a port is used by another program", "ss -ltnp"},
    {"no-module", "ModuleNotFoundError: No module named", "", follows::nothing,
     "that Python does not have this module",
     "is it the right one? PYTHON_EXEC names the Python of the workers"},
    {"too-many-files", "Too many open files", "", follows::nothing,
     "the limit of open files is reached", "ulimit -n"},
};

constexpr signature bus_error = {"bus-error",
                                 "",
                                 "",
                                 follows::nothing,
                                 "memory that is a file could not be had, most often /dev/shm",
                                 "df /dev/shm"};
constexpr signature illegal = {"illegal-instruction",
                               "",
                               "",
                               follows::nothing,
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
