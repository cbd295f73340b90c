#include "launcher/hosts/mpi/pmix.hpp"

#include "launcher/base/write_all.hpp"
#include "launcher/hosts/mpi/pmix_library.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::hosts::mpi {
namespace {

constexpr std::string_view pmix_file_name = "libpmix.so.2";

struct pmix_calls {
  pmix::init_function* init = nullptr;
  pmix::finalize_function* finalize = nullptr;
  pmix::put_function* put = nullptr;
  pmix::commit_function* commit = nullptr;
  pmix::fence_function* fence = nullptr;
  pmix::get_function* get = nullptr;
  pmix::error_string_function* error_string = nullptr;

  bool are_all_there() const {
    return init && finalize && put && commit && fence && get && error_string;
  }
};

template <typename Function>
void find_call(void* library, const char* name, Function*& call) {
  call = reinterpret_cast<Function*>(::dlsym(library, name));
}

pmix_calls find_calls(void* library) {
  pmix_calls calls;
  find_call(library, "PMIx_Init", calls.init);
  find_call(library, "PMIx_Finalize", calls.finalize);
  find_call(library, "PMIx_Put", calls.put);
  find_call(library, "PMIx_Commit", calls.commit);
  find_call(library, "PMIx_Fence", calls.fence);
  find_call(library, "PMIx_Get", calls.get);
  find_call(library, "PMIx_Error_string", calls.error_string);
  return calls;
}

class pmix_exchange final : public exchange {
 public:
  explicit pmix_exchange(const pmix_calls& calls) : calls_(calls) {}

  cli::checked begin() { return check("PMIx_Init", calls_.init(&self_, nullptr, 0)); }
  std::uint32_t rank() const { return self_.rank; }

  cli::checked put(const std::string& key, const std::string& value) override {
    std::string text = value;
    pmix::value put;
    put.type = pmix::type_string;
    put.data.string = text.data();
    if (auto wrong = check("PMIx_Put", calls_.put(pmix::scope_global, key.c_str(), &put)))
      return wrong;
    return check("PMIx_Commit", calls_.commit());
  }

  cli::checked fence() override {
    pmix::info collect;
    std::copy(std::begin(pmix::collect_data), std::end(pmix::collect_data), collect.key);
    collect.value.type = pmix::type_bool;
    collect.value.data.flag = true;
    return check("PMIx_Fence", calls_.fence(nullptr, 0, &collect, 1));
  }

  cli::parsed<std::string> get(std::uint32_t rank, const std::string& key) override {
    pmix::proc of = self_;
    of.rank = rank;
    pmix::value* found = nullptr;
    if (auto wrong = check("PMIx_Get", calls_.get(&of, key.c_str(), nullptr, 0, &found)))
      return std::move(*wrong);
    if (found == nullptr || found->type != pmix::type_string || found->data.string == nullptr)
      return cli::usage_error{"its PMIx has no text for " + key};
    // Never freed, because the child process ends in a moment.
    return good(found->data.string);
  }

  cli::checked finish() override { return check("PMIx_Finalize", calls_.finalize(nullptr, 0)); }

 private:
  cli::checked check(std::string_view call, int status) const {
    if (status == pmix::success) return {};
    const char* const words = calls_.error_string(status);
    return cli::usage_error{"its PMIx: " + std::string(call) + ": " +
                            (words != nullptr ? words : std::to_string(status))};
  }

  const pmix_calls calls_;
  pmix::proc self_;
};

cli::parsed<meeting> meet_in_this_process(void* library, std::uint32_t rank, std::uint32_t size,
                                          const host_facts& host) {
  const pmix_calls calls = find_calls(library);
  if (!calls.are_all_there())
    return cli::usage_error{"its libpmix is unusable: functions are missing"};
  pmix_exchange board(calls);
  if (auto wrong = board.begin()) return std::move(*wrong);
  if (board.rank() != rank) {
    return cli::usage_error{"its PMIx calls this rank " + std::to_string(board.rank()) +
                            ", its variables rank " + std::to_string(rank)};
  }
  auto agreed = meet(board, rank, size, host);
  auto left = board.finish();
  if (agreed && left) return std::move(*left);
  return agreed;
}

// Reads to the end. Returns false if the deadline comes first.
bool read_all(int fd, deadline until, std::string& text) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waited = {fd, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char bytes[4096];
    const ssize_t count = ::read(fd, bytes, sizeof bytes);
    if (count == 0) return true;
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
  }
}

[[noreturn]] void answer_and_end(const std::function<cli::parsed<std::string>()>& ask, int fd,
                                 pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const auto answer = ask();
  write_all(fd, answer ? "+" + *answer : "-" + answer.error().text);
  ::_exit(0);
}

}  // namespace

std::vector<std::string> pmix_library_places(const environment_map& environment,
                                             const ancestors& above, const std::string& proc) {
  std::vector<std::string> places;
  const auto add = [&](std::string place) {
    const bool is_new = std::find(places.begin(), places.end(), place) == places.end();
    if (is_new) places.push_back(std::move(place));
  };
  for (const ancestor& process : above) {
    std::ifstream maps(proc + "/" + std::to_string(process.pid) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      const std::size_t slash = line.find('/');
      if (slash == std::string::npos) continue;
      if (line.find("/libpmix.so", slash) != std::string::npos) add(line.substr(slash));
    }
  }
  for (const std::string_view variable : {"PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"}) {
    const std::string* const prefix = find_variable(environment, variable);
    if (prefix == nullptr || prefix->empty()) continue;
    for (const std::string_view folder : {"/lib/", "/lib/openmpi/", "/lib64/"})
      add(*prefix + std::string(folder) + std::string(pmix_file_name));
  }
  add(std::string(pmix_file_name));
  return places;
}

std::shared_ptr<void> open_pmix_library(const std::vector<std::string>& places) {
  for (const std::string& place : places) {
    void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) return {library, [](void* opened) { ::dlclose(opened); }};
  }
  return nullptr;
}

cli::parsed<std::string> ask_in_child(const std::function<cli::parsed<std::string>()>& ask,
                                      deadline until) {
  auto ends = make_pipe();
  if (!ends) return cli::usage_error{"no pipe: " + ends.error().message()};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return cli::usage_error{std::string("no child process: ") + std::strerror(errno)};
  if (child == 0) answer_and_end(ask, ends->write.get(), parent);
  ends->write.reset();
  std::string text;
  const bool has_answered = read_all(ends->read.get(), until, text);
  if (!has_answered) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!has_answered)
    return cli::usage_error{
        "some of its processes did not reach its PMIx, or that did not answer, in time"};
  if (text.starts_with('+')) return good(text.substr(1));
  if (text.starts_with('-')) return cli::usage_error{text.substr(1)};
  return cli::usage_error{
      "its libpmix has ended the process that used it" +
      (WIFSIGNALED(status) ? " by signal " + std::to_string(WTERMSIG(status)) : std::string())};
}

cli::parsed<std::optional<meeting>> meet_by_pmix(const std::vector<std::string>& places,
                                                 std::uint32_t rank, std::uint32_t size,
                                                 const host_facts& host, deadline until) {
  const auto text = ask_in_child(
      [&]() -> cli::parsed<std::string> {
        const std::shared_ptr<void> library = open_pmix_library(places);
        if (!library) return good({});
        const auto agreed = meet_in_this_process(library.get(), rank, size, host);
        if (!agreed) return agreed.error();
        return good(to_text(*agreed));
      },
      until);
  if (!text) return text.error();
  if (text->empty()) return std::optional<meeting>();
  auto agreed = read_meeting(*text);
  if (!agreed) return agreed.error();
  return std::optional<meeting>(std::move(*agreed));
}

}  // namespace ddprun::launcher::hosts::mpi
