#include "worker/torch/process_group.hpp"

#include "rendezvous/base/lost_peer.hpp"
#include "worker/roll_call.hpp"
#include "worker/round_parts.hpp"
#include "worker/store_client.hpp"
#include "worker/torch/gloo_backend.hpp"
#include "worker/torch/loss_text.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <signal.h>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr const char* key_prefix = "ddprun_worker";
constexpr auto question_limit = roll_call::question_limit;
constexpr int any_tag = 1;

// Under torchrun (2.15) the store and its keys outlive the round, and only the restart count
// distinguishes rounds. Each agent counts only the restarts that its own workers caused. After a
// restart because of another node, ranks disagree on the count and cannot join.
std::string prefix_of(const environment& environment) {
  return std::string(key_prefix) + "/" + std::to_string(environment.round);
}

// The keys of the roll call for the call with this number.
std::string place_of(const environment& environment, const std::string& name, std::uint64_t call) {
  return prefix_of(environment) + "/calls/" + name + "/" + std::to_string(call);
}

// The keys of the store tree, which replaces Gloo.
std::string place_of_words(const environment& environment, const std::string& name) {
  return prefix_of(environment) + "/words/" + name;
}

std::string store_address(const environment& environment) {
  const bool v6 = environment.master_address.find(':') != std::string::npos;
  return std::string(v6 ? "[" : "") + environment.master_address + (v6 ? "]:" : ":") +
         std::to_string(environment.master_port);
}

// True for LibTorch's and Gloo's texts of timeouts.
bool is_late(const std::string& text) {
  return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

// True for texts that say that a rank, or the store, is gone.
bool is_of_lost_peer(const std::string& text) {
  for (const char* const words : {"Connection closed by peer", "Connection reset by peer",
                                  "Broken pipe", "Connection was likely closed", lost_text,
                                  waiting_text, "Connection refused", "connectFullMesh failed"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return is_late(text);
}

// Of the errors in a backward pass, selects those of its collectives: NCCL's and the store's have a
// type of their own, Gloo's begin with their position in its sources.
bool is_of_collective(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  const std::string text = error.what();
  return text.starts_with("[") && text.substr(0, text.find("] ")).find("gloo/") != text.npos;
}

c10::intrusive_ptr<c10d::Store> open_store(const environment& environment,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = environment.rank == 0 && !environment.agent_store;
  options.numWorkers = environment.world_size;
  options.timeout = timeout;
  options.multiTenant = options.isServer;
  options.waitWorkers = false;  // the ranks do, and can name the missing
  return c10::make_intrusive<c10d::PrefixStore>(
      prefix_of(environment),
      c10::make_intrusive<c10d::TCPStore>(environment.master_address, options));
}

// The timeout of Gloo, and of what replaces it.
std::chrono::milliseconds cpu_timeout(const process_group_options& options) {
  return options.collective_timeout.value_or(std::chrono::minutes(30));
}

// Combines flags written as one character each.
std::string any_of(std::string_view one, std::string_view other) {
  std::string found(one);
  for (std::size_t at = 0; at < std::min(one.size(), other.size()); ++at)
    found[at] = one[at] == '1' || other[at] == '1' ? '1' : '0';
  return found;
}

// Adds up doubles in their memory representation.
std::string sum_of(std::string_view one, std::string_view other) {
  std::string sums(one);
  for (std::size_t at = 0; at + sizeof(double) <= std::min(one.size(), other.size());
       at += sizeof(double)) {
    double first = 0, second = 0;
    std::memcpy(&first, one.data() + at, sizeof first);
    std::memcpy(&second, other.data() + at, sizeof second);
    first += second;
    std::memcpy(sums.data() + at, &first, sizeof first);
  }
  return sums;
}

// Throws the tree's errors, which guarded() turns into the group's.
std::string answer_of(store_tree& words, std::string own, const store_tree::joiner& with,
                      std::chrono::milliseconds limit) {
  auto answer = words.join(std::move(own), with, limit);
  if (answer) return std::move(*answer);
  throw std::runtime_error(answer.error() == errc::timed_out ? "timed out" : words.problem());
}

// Holds groups after an error. ProcessGroupGloo's destructor waits for its threads, one of which
// may be waiting for a rank that in turn waits for this one to end. So the group is left alone
// until its sockets are closed, by the end of the process or, if the process lives on, of the
// round.
class lost_groups final : public round_part {
 public:
  void add(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    const std::lock_guard lock(mutex_);
    groups_.push_back(group);
  }
  void end_waits() override {
    for (const auto& each : all())
      let_go_of_gloo(*each);
  }
  // Copy the list: the destructors must not wait with the lock held.
  void left() override {
    const auto ended = all();
    const std::lock_guard lock(mutex_);
    groups_.clear();
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> all() {
    const std::lock_guard lock(mutex_);
    return groups_;
  }

  std::mutex mutex_;
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups_;
};

void leave_to_end_of_round(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  // It is never destroyed, because its destructor would wait at the end of the process.
  static const auto& kept = *[] {
    auto* const made = new std::shared_ptr<lost_groups>(std::make_shared<lost_groups>());
    add_round_part(*made);
    return made;
  }();
  kept->add(group);
}

// Gloo's writes can raise SIGPIPE, so a dead peer would end this rank without any message, as if
// this rank were at fault. Python ignores the signal from its start.
void ignore_broken_pipes() {
  struct sigaction set {};
  if (::sigaction(SIGPIPE, nullptr, &set) != 0 || set.sa_handler != SIG_DFL) return;
  set.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &set, nullptr);
}

// What LibTorch's watchdog reads when a backend is made. It must neither end the process (also not
// for an error of CUDA, or a timeout) nor abort a group by itself, and not sleep for a minute, so
// that other ranks can write their dumps, before it lets go of a group.
void turn_off_watchdog() {
  for (const char* const name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_DESYNC_DEBUG",
        "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_RETHROW_CUDA_ERRORS",
        "TORCH_NCCL_TEARDOWN_ON_TIMEOUT", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"})
    ::setenv(name, "0", 1);
}

}  // namespace

process_group process_group::join(const environment& environment, process_group_options options) {
  ignore_broken_pipes();
  if (!options.watchdog) turn_off_watchdog();
  process_group joined(environment, std::move(options));
  c10::intrusive_ptr<c10d::Store> store;
  joined.guarded("cannot reach the store",
                 [&] { store = open_store(environment, joined.options_.join_timeout); });
  joined.connect(store, "world");
  return joined;
}

process_group process_group::init(process_group_options options) {
  return join(read_environment(), std::move(options));
}

void process_group::connect(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name) {
  name_ = name;
  store_ = store;
  std::string problem;
  auto client = store_client::from_environment(environment_, options_.join_timeout, problem);
  // A request without a reply ends the connection, which the tree still needs: give it more time.
  const auto limit = options_.gloo ? question_limit : options_.join_timeout;
  if (client)
    roll_call(*client, place_of(environment_, name_, 0), rank_, world_size_).answer(limit);
  guarded("cannot join the other ranks", [&] {
    std::shared_ptr<store_tree> words;
    if (!options_.gloo) {
      if (!client) throw std::runtime_error(problem);
      words = std::make_shared<store_tree>(*client, place_of_words(environment_, name_), rank_,
                                           world_size_);
      answer_of(*words, "", any_of, options_.join_timeout);
    }
    const auto own = c10::make_intrusive<c10d::PrefixStore>(name, store);
    const int rank = static_cast<int>(rank_);
    const int world_size = static_cast<int>(world_size_);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(own, rank, world_size);
    if (options_.gloo) {
      group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                        join_by_gloo(own, rank, world_size, environment_, options_.join_timeout,
                                     cpu_timeout(options_)));
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    }
    group->setGroupName("ddprun/" + name);
    for (const auto& add : options_.backends)
      add(*group, own, options_);
    group_ = std::make_shared<open_group>();
    group_->native = std::move(group);
    group_->words = std::move(words);
    add_round_part(std::weak_ptr<round_part>(group_));
  });
  calls_ = 1;
}

std::optional<process_group> process_group::subgroup(const std::vector<std::uint32_t>& ranks) {
  std::vector<std::uint32_t> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  const bool is_sound = !sorted.empty() && sorted.back() < world_size_ &&
                        std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!is_sound) {
    throw process_group_error(who() + ": subgroup: its ranks must be from 0 to " +
                              std::to_string(world_size_ - 1) + ", each once");
  }
  const std::string name = name_ + "/" + std::to_string(parts_++);
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return std::nullopt;
  process_group part(environment_, options_);
  part.rank_ = static_cast<std::uint32_t>(own - ranks.begin());
  part.world_size_ = static_cast<std::uint32_t>(ranks.size());
  part.connect(store_, name);
  group_->parts.push_back(part.group_);
  return part;
}

// "rank 3 of 4, store at 10.0.0.7:29500"
std::string process_group::who() const {
  std::string text = "rank " + std::to_string(environment_.rank) + " of " +
                     std::to_string(environment_.world_size);
  if (world_size_ != environment_.world_size || rank_ != environment_.rank) {
    text += " (rank " + std::to_string(rank_) + " of the " + std::to_string(world_size_) +
            " in its subgroup)";
  }
  return text + ", store at " + store_address(environment_);
}

// Every rank that times out in the same call answers; those that do not are missing.
std::string process_group::who_is_missing() const {
  if (is_uneven_) return "";
  std::string ignored;
  auto client = store_client::from_environment(environment_, question_limit, ignored);
  if (!client) return "";
  roll_call late(*client, place_of(environment_, name_, calls_), rank_, world_size_);
  // At the first call, joining, every rank has already answered at its beginning.
  const auto missing = calls_ > 0 ? late.who_is_late() : late.missing(question_limit);
  if (!missing || missing->empty()) return "";
  return "; " + *missing + (world_size_ == environment_.world_size ? "" : " (of its subgroup)");
}

void process_group::guarded(const char* what, const std::function<void()>& work) const {
  run(what, /*has_own_errors=*/false, work);
}

void process_group::guarded_with_own(const char* what, const std::function<void()>& work) const {
  run(what, /*has_own_errors=*/true, work);
}

void process_group::run(const char* what, bool has_own_errors,
                        const std::function<void()>& work) const {
  const auto fail = [&](const std::string& text) {
    if (group_) leave_to_end_of_round(group_->native);
    const std::string told =
        who() + ": " + what + ": " + first_line(text) + (is_late(text) ? who_is_missing() : "");
    return process_group_error(is_of_lost_peer(text) ? for_want_of_peer(told) : told);
  };
  if (group_ && group_->is_closed) {
    throw process_group_error(who() + ": " + what + ": the group is closed");
  }
  try {
    work();
  } catch (const process_group_error&) {
    throw;
  } catch (const c10::Error& error) {
    if (has_own_errors && !is_of_collective(error)) throw;
    throw fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (has_own_errors && !is_of_collective(error)) throw;
    throw fail(error.what());
  }
  ++calls_;
}

void process_group::all_reduce_sum(at::Tensor& tensor) {
  guarded("all_reduce", [&] {
    std::vector<at::Tensor> tensors{tensor};
    native()->allreduce(tensors)->wait();
  });
}

void process_group::broadcast(at::Tensor& tensor, std::uint32_t root) {
  guarded("broadcast", [&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    native()->broadcast(tensors, options)->wait();
  });
}

// Only one thread may use the store connection, so an open question is completed first.
std::string process_group::join_words(std::string own, const store_tree::joiner& with) {
  if (asking_words_.valid()) asking_words_.wait();
  return answer_of(*group_->words, std::move(own), with, cpu_timeout(options_));
}

// Each rank passes on what it knows to the rank at distance 1, then 2, then 4 ... After log2(world
// size) turns every rank has heard of every other.
bool process_group::any(bool here) {
  bool found = here;
  guarded("any", [&] {
    if (group_->words) {
      found = join_words(here ? "1" : "0", any_of) == "1";
      return;
    }
    const auto limit = cpu_timeout(options_);
    for (std::uint32_t distance = 1; distance < world_size_; distance *= 2) {
      std::vector<at::Tensor> told{at::full({1}, found ? 1 : 0, at::kByte)};
      std::vector<at::Tensor> heard{at::zeros({1}, at::kByte)};
      const auto to = static_cast<int>((rank_ + distance) % world_size_);
      const auto from = static_cast<int>((rank_ + world_size_ - distance) % world_size_);
      const auto sent = native()->send(told, to, any_tag);
      native()->recv(heard, from, any_tag)->wait(limit);
      sent->wait(limit);
      found = found || heard[0].item<bool>();
    }
  });
  return found;
}

void process_group::ask(const flags& here) {
  guarded("asking all ranks", [&] {
    if (group_->words) {
      std::string own;
      for (const bool each : here)
        own += each ? '1' : '0';
      std::promise<std::string> answer;
      asking_words_ = answer.get_future().share();
      // The thread holds all that it uses and is detached: a missing rank must not hold up this
      // one.
      std::thread([words = group_->words, own, limit = cpu_timeout(options_),
                   answer = std::move(answer)]() mutable {
        try {
          answer.set_value(answer_of(*words, own, any_of, limit));
        } catch (const std::exception&) {
          answer.set_exception(std::current_exception());
        }
      }).detach();
      return;
    }
    asked_ = at::zeros({static_cast<std::int64_t>(here.size())}, at::kByte);
    std::copy(here.begin(), here.end(), asked_.data_ptr<std::uint8_t>());
    std::vector<at::Tensor> tensors{asked_};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    asking_ = native()->allreduce(tensors, options);
  });
}

process_group::flags process_group::answer() {
  flags said{};
  guarded("hearing from all ranks", [&] {
    if (group_->words) {
      const std::string all = std::exchange(asking_words_, {}).get();
      for (std::size_t at = 0; at < said.size(); ++at)
        said[at] = all[at] == '1';
      return;
    }
    const auto asking = std::exchange(asking_, {});
    asking->wait();
    for (std::size_t at = 0; at < said.size(); ++at)
      said[at] = asked_.data_ptr<std::uint8_t>()[at] != 0;
  });
  return said;
}

void process_group::sum(std::span<double> numbers) {
  if (!group_->words) {
    auto sums =
        at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble);
    all_reduce_sum(sums);
    return;
  }
  guarded("sum", [&] {
    std::string own(numbers.size_bytes(), '\0');
    std::memcpy(own.data(), numbers.data(), own.size());
    const std::string all = join_words(std::move(own), sum_of);
    std::memcpy(numbers.data(), all.data(), std::min(all.size(), numbers.size_bytes()));
  });
}

std::string process_group::broadcast_bytes(std::string bytes, std::uint32_t root) {
  if (group_->words) {
    std::string told;
    guarded("broadcast", [&] {
      told = join_words(rank() == root ? std::move(bytes) : "", [](auto one, auto other) {
        return std::string(one.empty() ? other : one);
      });
    });
    return told;
  }
  auto size = at::tensor(static_cast<std::int64_t>(bytes.size()), at::kLong).reshape({1});
  broadcast(size, root);
  const auto count = size.item<std::int64_t>();
  auto content = at::empty({count}, at::kByte);
  if (rank() == root) std::memcpy(content.data_ptr(), bytes.data(), bytes.size());
  if (count > 0) broadcast(content, root);
  return std::string(static_cast<const char*>(content.data_ptr()), static_cast<std::size_t>(count));
}

void process_group::barrier() {
  guarded("barrier", [&] {
    if (group_->words) {
      join_words("", any_of);
    } else {
      native()->barrier()->wait();
    }
  });
}

void process_group::end_uneven_calls() {
  std::vector<at::Tensor> most{at::full({1}, static_cast<std::int64_t>(calls_), at::kLong)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  guarded("ending uneven calls", [&] { native()->allreduce(most, options)->wait(); });
  // Continue with the same number on all ranks, so that later timeouts can be compared again.
  calls_ = static_cast<std::uint64_t>(most[0].item<std::int64_t>()) + 1;
  is_uneven_ = false;
}

void process_group::wait_for_devices() const {
  for (const c10::Device& gpu : gpus())
    c10::impl::VirtualGuardImpl(gpu.type()).synchronizeDevice(gpu.index());
}

void process_group::throw_lost(const char* what, const std::string& why) const {
  guarded(what, [&] { throw std::runtime_error(why); });
  std::abort();  // not reached
}

// The destructor of LibTorch's group would abort NCCL: while an exception unwinds, other ranks may
// still be in a collective with this one.
process_group::open_group::~open_group() {
  if (is_closed || !native) return;
  const auto kinds = native->getDeviceTypes();
  const bool is_on_gpus = std::any_of(kinds.begin(), kinds.end(),
                                      [](const c10::Device& kind) { return !kind.is_cpu(); });
  if (is_on_gpus) leave_to_end_of_round(native);
}

void process_group::open_group::shut_down() {
  if (is_closed) return;
  is_closed = true;
  *is_shut_down = true;
  for (const auto& each : parts) {
    if (const auto part = each.lock()) part->shut_down();
  }
  native->shutdown();
}

// Without Gloo the waits are on the store, which round_link disconnects.
void process_group::open_group::end_waits() {
  if (!words) let_go_of_gloo(*native);
}

void process_group::open_group::let_go(const std::string& why) {
  if (std::exchange(is_closed, true)) return;
  leave_to_end_of_round(native);
  for (const auto& each : parts) {
    if (const auto part = each.lock()) part->let_go(why);
  }
  if (!words) {
    let_go_of_gloo(*native);
  } else if (words.use_count() == 1) {  // no open question's thread uses the connection
    words->give_up(why, question_limit);
  }
}

void process_group::let_go() {
  const std::string why = "rank " + std::to_string(environment_.rank) + " " + lost_text;
  std::string ignored;
  // An open question's thread uses the tree's connection, so give up over another connection.
  if (group_->words && asking_words_.valid()) {
    if (const auto client = store_client::from_environment(environment_, question_limit, ignored)) {
      store_tree(*client, place_of_words(environment_, name_), rank_, world_size_)
          .give_up(why, question_limit);
    }
  }
  group_->let_go(why);
}

// NCCL may be shut down only when no rank has a collective in progress, on its GPU either.
void process_group::close() {
  guarded_with_own("waiting for the GPU", [&] { wait_for_devices(); });
  barrier();
  guarded("leaving the group", [&] { group_->shut_down(); });
  store_.reset();
}

}  // namespace ddprun::worker
