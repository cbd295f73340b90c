#include "worker/nccl/communicator.hpp"
#include "worker/nccl/communicator_state.hpp"

#include <string>

namespace ddprun::worker {
namespace {

static_assert(element_of<float>().number == ncclFloat32);
static_assert(element_of<double>().number == ncclFloat64);
static_assert(element_of<__half>().number == ncclFloat16);
static_assert(element_of<__nv_bfloat16>().number == ncclBfloat16);
static_assert(element_of<std::int8_t>().number == ncclInt8);
static_assert(element_of<std::uint8_t>().number == ncclUint8);
static_assert(element_of<std::int32_t>().number == ncclInt32);
static_assert(element_of<std::uint32_t>().number == ncclUint32);
static_assert(element_of<std::int64_t>().number == ncclInt64);
static_assert(element_of<std::uint64_t>().number == ncclUint64);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 3)
static_assert(element_of<__nv_fp8_e4m3>().number == ncclFloat8e4m3);
static_assert(element_of<__nv_fp8_e5m2>().number == ncclFloat8e5m2);
#endif
static_assert(static_cast<int>(reduction::sum) == ncclSum);
static_assert(static_cast<int>(reduction::product) == ncclProd);
static_assert(static_cast<int>(reduction::max) == ncclMax);
static_assert(static_cast<int>(reduction::min) == ncclMin);
static_assert(static_cast<int>(reduction::average) == ncclAvg);

ncclDataType_t type_of(element kind) {
  return static_cast<ncclDataType_t>(kind.number);
}
ncclRedOp_t operation_of(reduction how) {
  return static_cast<ncclRedOp_t>(how);
}

std::string text_of(const char* what, std::size_t count, element kind) {
  return std::string(what) + " of " + std::to_string(count) + " " + kind.name;
}

std::string sizes(std::size_t wanted, std::size_t room) {
  return "that is " + std::to_string(wanted) + " elements, and there is room for " +
         std::to_string(room);
}

}  // namespace

void communicator::all_reduce(memory from, memory to, element kind, reduction how,
                              cuda_stream stream) {
  const std::string what = text_of("all_reduce", from.count, kind);
  if (to.count < from.count) state_->refuse(what, sizes(from.count, to.count));
  state_->enqueue(what, [&] {
    return ncclAllReduce(from.data, to.data, from.count, type_of(kind), operation_of(how),
                         state_->comm, stream);
  });
}

void communicator::broadcast(memory data, element kind, std::uint32_t root, cuda_stream stream) {
  const std::string what = text_of("broadcast", data.count, kind);
  const int from = state_->need_rank(what, root);
  state_->enqueue(what, [&] {
    return ncclBroadcast(data.data, data.data, data.count, type_of(kind), from, state_->comm,
                         stream);
  });
}

void communicator::all_gather(memory from, memory to, element kind, cuda_stream stream) {
  const std::string what = text_of("all_gather", from.count, kind);
  const std::size_t all = from.count * state_->world_size;
  if (to.count < all) state_->refuse(what, sizes(all, to.count));
  state_->enqueue(what, [&] {
    return ncclAllGather(from.data, to.data, from.count, type_of(kind), state_->comm, stream);
  });
}

void communicator::reduce_scatter(memory from, memory to, element kind, reduction how,
                                  cuda_stream stream) {
  const std::string what = text_of("reduce_scatter", from.count, kind);
  const std::size_t ranks = state_->world_size;
  if (from.count % ranks != 0)
    state_->refuse(what, "that cannot be divided evenly among " + std::to_string(ranks) + " ranks");
  const std::size_t part = from.count / ranks;
  if (to.count < part) state_->refuse(what, sizes(part, to.count));
  state_->enqueue(what, [&] {
    return ncclReduceScatter(from.data, to.data, part, type_of(kind), operation_of(how),
                             state_->comm, stream);
  });
}

void communicator::send(memory from, element kind, std::uint32_t to_rank, cuda_stream stream) {
  const std::string what =
      text_of("send", from.count, kind) + " to rank " + std::to_string(to_rank);
  const int peer = state_->need_rank(what, to_rank);
  state_->enqueue(what, [&] {
    return ncclSend(from.data, from.count, type_of(kind), peer, state_->comm, stream);
  });
}

void communicator::receive(memory to, element kind, std::uint32_t from_rank, cuda_stream stream) {
  const std::string what =
      text_of("receive", to.count, kind) + " from rank " + std::to_string(from_rank);
  const int peer = state_->need_rank(what, from_rank);
  state_->enqueue(
      what, [&] { return ncclRecv(to.data, to.count, type_of(kind), peer, state_->comm, stream); });
}

void communicator::grouped(const std::function<void()>& calls) {
  state_->need_open("group");
  if (state_->is_in_group) return calls();  // NCCL too merges nested groups into one
  state_->need_no_group("group");
  if (const ncclResult_t code = ncclGroupStart(); code != ncclSuccess) state_->fail("group", code);
  const auto end_group = [this] {
    state_->is_in_group = false;
    group_of_thread = nullptr;
    return ncclGroupEnd();
  };
  state_->is_in_group = true;
  group_of_thread = state_.get();
  try {
    calls();
  } catch (...) {
    // A half-filled group cannot be taken back: NCCL would keep collecting for it, with an aborted
    // communicator in its list. So it is sent off and then aborted.
    end_group();
    state_->abort();
    throw;
  }
  const std::string what = "group with " + state_->newest();
  const ncclResult_t code = end_group();
  if (state_->is_to_abort) return state_->abort();
  const deadline until = state_->options.call_timeout;
  state_->settle(code, what, until,
                 [this] { return "still not enqueued" + state_->who_is_missing(); });
}

}  // namespace ddprun::worker
