#include "death.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "ring.h"

namespace opscope {
namespace {

constexpr int kSignals = 65;
struct sigaction before[kSignals];
std::atomic<bool> watched[kSignals];
char **witness_words = nullptr, **witness_environment = nullptr;
char** to_remove = nullptr;
int stack_signal = 0;
std::atomic<bool> called{false};
std::atomic<uint64_t> patience{0};
std::atomic<uint64_t> hang_thread{0};

bool is_own() { return ring.base != nullptr && getpid() == ring.process; }

bool is_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGABRT;
}

// The stacks of all threads, by Python's own faulthandler, in the thread that is about to end.
void dump_stacks() {
  if (stack_signal != 0) pthread_kill(pthread_self(), stack_signal);
}

void unblock(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// The process ends by this signal as it would have done without us.
void end_by(int signal, const siginfo_t* info) {
  sigaction(signal, &before[signal], nullptr);
  const bool comes_again = is_fault(signal) && info->si_code > 0 && signal != SIGABRT;
  if (comes_again) return;  // the instruction is run again
  unblock(signal);
  raise(signal);
}

void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const struct sigaction& old = before[signal];
  const bool is_last = !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL;
  if (is_own()) {
    const bool by_itself = is_fault(signal) && info->si_code > 0;
    mark(kMarkerSignal, signal, by_itself ? reinterpret_cast<uint64_t>(info->si_addr) : 0, "");
    if (is_last || is_fault(signal)) {  // few survive a fault, whoever handles it
      dump_stacks();
      call_witness();
    }
  }
  if (is_last) {
    end_by(signal, info);
  } else if (old.sa_flags & SA_SIGINFO) {
    old.sa_sigaction(signal, info, context);
  } else if (old.sa_handler != SIG_IGN) {
    old.sa_handler(signal);
  }
  errno = error;
}

#if defined(__GLIBC__)
void leave(int status, void*) {
  if (!is_own() || ring.field(kStateField) == kRingExported) return;
  mark(kMarkerExit, status & 0xff, 0, "");
  if ((status & 0xff) != 0) {
    call_witness();
  } else if (ring.field(kStateField) == kRingFinished) {
    for (char** path = to_remove; path != nullptr && *path != nullptr; ++path) std::remove(*path);
  }
}
#endif

void* look_for_hang(void* number) {
  const uint64_t self = reinterpret_cast<uint64_t>(number);
  uint64_t head = 0, since = now();
  bool told = false;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while (hang_thread.load() == self && is_own()) {
    timespec pause{0, 200000000};
    nanosleep(&pause, nullptr);
    if (hang_thread.load() != self || !is_own()) break;
    const uint64_t seconds = patience.load();
    const uint64_t reached = ring.field(kHeadField).load();
    if (reached != head) {
      head = reached;
      since = now();
      told = false;
    } else if (!told && seconds != 0 && head != 0 && now() - since > seconds * 1000000000u &&
               ring.field(kStateField) == kRingRunning) {
      told = true;
      mark(kMarkerHang, static_cast<int>(seconds), head, "");
      called = false;
      call_witness();
      called = false;  // the process may end yet
    }
  }
  return nullptr;
}

// A stack that has overflowed is no place to handle that.
void prepare_stack() {
  static char memory[1 << 16];
  stack_t found;
  if (sigaltstack(nullptr, &found) || !(found.ss_flags & SS_DISABLE)) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  sigaltstack(&stack, nullptr);
}

}  // namespace

void prepare_witness(char** words, char** environment, int signal) {
  prepare_stack();
  witness_words = words;
  witness_environment = environment;
  stack_signal = signal;
  called = false;
}

void remove_after_good_end(char** paths) { to_remove = paths; }

void call_witness() {
  if (witness_words == nullptr || !is_own() || called.exchange(true)) return;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const pid_t child = vfork();
  if (child == 0) {
    setsid();
    // A second child, so that nobody finds a child it has not started.
    const pid_t grandchild = vfork();
    if (grandchild != 0) _exit(0);
    struct sigaction usual;
    usual.sa_handler = SIG_DFL;
    usual.sa_flags = 0;
    sigemptyset(&usual.sa_mask);
    for (int signal = 1; signal < kSignals; ++signal) sigaction(signal, &usual, nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(witness_words[0], witness_words, witness_environment);
    _exit(127);
  }
  if (child > 0) {
    int status = 0;
    while (waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

bool watch_signal(int signal) {
  struct sigaction found;
  if (signal <= 0 || signal >= kSignals || sigaction(signal, nullptr, &found)) return false;
  if ((found.sa_flags & SA_SIGINFO) && found.sa_sigaction == &handle) return true;
  if (!(found.sa_flags & SA_SIGINFO) && found.sa_handler == SIG_IGN) return true;  // stays so
  before[signal] = found;
  struct sigaction ours;
  ours.sa_sigaction = &handle;
  ours.sa_mask = found.sa_mask;
  ours.sa_flags = (found.sa_flags & (SA_RESTART | SA_NODEFER)) | SA_SIGINFO | SA_ONSTACK;
  watched[signal] = true;
  return sigaction(signal, &ours, nullptr) == 0;
}

void forget_thread() { hang_thread = 0; }

void forget_death() {
  hang_thread = 0;
  witness_words = nullptr;
  for (int signal = 1; signal < kSignals; ++signal) {
    if (!watched[signal].exchange(false)) continue;
    struct sigaction found;
    if (sigaction(signal, nullptr, &found)) continue;
    if ((found.sa_flags & SA_SIGINFO) && found.sa_sigaction == &handle) {
      sigaction(signal, &before[signal], nullptr);
    }
  }
}

void watch_for_hang(uint64_t seconds) {
  patience = seconds;
  if (seconds == 0 || hang_thread != 0) {
    if (seconds == 0) hang_thread = 0;
    return;
  }
  static uint64_t last = 0;
  const uint64_t number = ++last;
  hang_thread = number;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &look_for_hang, reinterpret_cast<void*>(number)) == 0) {
    pthread_detach(thread);
  } else {
    hang_thread = 0;
  }
}

void watch_exit() {
#if defined(__GLIBC__)
  static bool done = false;
  if (!done) done = on_exit(leave, nullptr) == 0;
#endif
}

}  // namespace opscope
