#include "tests/support/fake_nccl.hpp"

#include "worker/nccl_id.hpp"

#include <cstring>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <utility>

using ddprun::tests::nccl;

struct ncclComm {
  int ranks;
  int rank;
  int looks_left;               // polls until it is no longer in progress
  ncclComm_t* place = nullptr;  // where to store the split-off part when it is done
  ncclComm_t part = nullptr;
};

namespace {
// The communicator of this thread's open group.
ncclComm_t grouped = nullptr;
}  // namespace

namespace ddprun::tests {

fake_nccl& nccl() {
  static fake_nccl one;
  return one;
}

fake_nccl& fresh_nccl() {
  return nccl() = fake_nccl();
}

namespace {

ncclResult_t begin(ncclComm_t comm) {
  if (nccl().call_code != 0) return static_cast<ncclResult_t>(nccl().call_code);
  if (nccl().group_depth > 0) {
    grouped = comm;
    return ncclSuccess;
  }
  comm->looks_left = nccl().looks_until_done;
  return ncclInProgress;
}

ncclResult_t open(ncclComm_t* comm, int ranks, int rank, const ncclUniqueId* ids, int count,
                  const ncclConfig_t* config) {
  fake_nccl& fake = nccl();
  fake.ranks = ranks;
  fake.rank = rank;
  fake.is_blocking = config->blocking != 0;
  fake.ids.clear();
  for (int at = 0; at < count; ++at) {
    worker::nccl_id id;
    std::memcpy(id.data(), &ids[at], sizeof ids[at]);
    fake.ids.push_back(worker::nccl_id_text(id));
  }
  *comm = new ncclComm{ranks, rank, 0};
  ++fake.open;
  const ncclResult_t code = begin(*comm);
  return code;
}

ncclResult_t enqueue(nccl_call call, ncclComm_t comm) {
  nccl().calls.push_back(std::move(call));
  return begin(comm);
}

void close(ncclComm_t comm) {
  --nccl().open;
  delete comm;
}

}  // namespace
}  // namespace ddprun::tests

using ddprun::tests::enqueue;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = nccl().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  id->internal[0] = 0x5a;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote error" : code == ncclSuccess ? "no error" : "some error";
}

const char* ncclGetLastError(ncclComm_t) {
  return nccl().last_error.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return ddprun::tests::open(comm, ranks, rank, &id, 1, config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  return ddprun::tests::open(comm, ranks, rank, ids, count, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* code) {
  ++nccl().looks;
  *code = static_cast<ncclResult_t>(nccl().asynchronous_code);
  if (*code == ncclSuccess && comm->looks_left > 0) {
    if (!nccl().never_done) --comm->looks_left;
    *code = ncclInProgress;
  } else if (comm->place != nullptr) {
    *std::exchange(comm->place, nullptr) = comm->part;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++nccl().aborted;
  ddprun::tests::close(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return enqueue({"finalize"}, comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ddprun::tests::close(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  ddprun::tests::nccl_call call{"split"};
  call.count = static_cast<std::size_t>(key);
  call.operation = color;
  if (color != NCCL_SPLIT_NOCOLOR) {
    comm->part = new ncclComm{comm->ranks / 2, comm->rank / 2, 1};
    comm->place = part;
    ++nccl().open;
  }
  *part = nullptr;
  // Like NCCL 2.28, which reports success while the split is in progress.
  const ncclResult_t code = enqueue(std::move(call), comm);
  return code == ncclInProgress ? ncclSuccess : code;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->ranks;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"all_reduce", from, to, count, type, operation, stream}, comm);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"broadcast", from, to, count, type, root, stream}, comm);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"all_gather", from, to, count, type, -1, stream}, comm);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"reduce_scatter", from, to, count, type, operation, stream}, comm);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int rank,
                      ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"send", from, nullptr, count, type, rank, stream}, comm);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int rank, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue({"receive", nullptr, to, count, type, rank, stream}, comm);
}

ncclResult_t ncclGroupStart() {
  ++nccl().group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  --nccl().group_depth;
  return grouped == nullptr ? ncclSuccess : ddprun::tests::begin(std::exchange(grouped, nullptr));
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = nccl().gpus;
  return static_cast<cudaError_t>(nccl().cuda_code);
}

cudaError_t cudaSetDevice(int device) {
  nccl().device = device;
  return static_cast<cudaError_t>(nccl().cuda_code);
}

cudaError_t cudaStreamQuery(cudaStream_t) {
  if (nccl().stream_is_busy) return cudaErrorNotReady;
  return static_cast<cudaError_t>(nccl().stream_code);
}

const char* cudaGetErrorString(cudaError_t) {
  return "some text of CUDA";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorSome";
}

}  // extern "C"
