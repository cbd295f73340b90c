#include "rendezvous/base/signals.hpp"

#include <csignal>

namespace ddprun {
namespace {

struct named_signal {
  int number;
  const char* name;
};

// The names of sigabbrev_np(), which glibc has only since 2.32.
constexpr named_signal names[] = {
    {SIGABRT, "ABRT"},     {SIGALRM, "ALRM"}, {SIGBUS, "BUS"},   {SIGCHLD, "CHLD"},
    {SIGCONT, "CONT"},     {SIGFPE, "FPE"},   {SIGHUP, "HUP"},   {SIGILL, "ILL"},
    {SIGINT, "INT"},       {SIGKILL, "KILL"}, {SIGPIPE, "PIPE"}, {SIGPOLL, "POLL"},
    {SIGPROF, "PROF"},     {SIGPWR, "PWR"},   {SIGQUIT, "QUIT"}, {SIGSEGV, "SEGV"},
    {SIGSTKFLT, "STKFLT"}, {SIGSTOP, "STOP"}, {SIGSYS, "SYS"},   {SIGTERM, "TERM"},
    {SIGTRAP, "TRAP"},     {SIGTSTP, "TSTP"}, {SIGTTIN, "TTIN"}, {SIGTTOU, "TTOU"},
    {SIGURG, "URG"},       {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGVTALRM, "VTALRM"},
    {SIGWINCH, "WINCH"},   {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}};

void do_nothing(int) {}

}  // namespace

std::string signal_name(int signal) {
  for (const named_signal& one : names) {
    if (one.number == signal) return std::string("SIG") + one.name;
  }
  return "signal " + std::to_string(signal);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void outlive_file_size_limit() {
  if (is_ignored(SIGXFSZ)) return;
  // exec keeps SIG_IGN, but resets a handler.
  struct sigaction action {};
  action.sa_handler = do_nothing;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
}

}  // namespace ddprun
