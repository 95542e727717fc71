/* Samples the native stacks of chosen threads at regular moments of the wall clock. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kDepth = 40, kMost = 60000, kThreads = 64 };

typedef struct {
  int64_t thread, depth;
  void* frames[kDepth];
} Sample;

static Sample samples[kMost];
static int64_t taken;
static volatile int enabled;
static timer_t timers[kThreads];
static int timer_count;

static void on_signal(int number) {
  (void)number;
  if (!enabled) return;
  const int64_t at = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
  if (at >= kMost) return;
  samples[at].thread = syscall(SYS_gettid);
  samples[at].depth = backtrace(samples[at].frames, kDepth);
}

int sampler_watch(int thread, long period_ns) {
  static int installed;
  if (!installed) {
    void* warm[4];
    backtrace(warm, 4); /* loads the unwinder, which a signal handler must not do */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    installed = 1;
  }
  if (timer_count == kThreads) return -1;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = thread;
  if (timer_create(CLOCK_MONOTONIC, &event, &timers[timer_count]) != 0) return -1;
  struct itimerspec every;
  every.it_value.tv_sec = every.it_interval.tv_sec = 0;
  every.it_value.tv_nsec = every.it_interval.tv_nsec = period_ns;
  timer_settime(timers[timer_count], 0, &every, NULL);
  ++timer_count;
  return 0;
}

void sampler_enable(int on) { enabled = on; }

void sampler_end(void) {
  enabled = 0;
  while (timer_count > 0) timer_delete(timers[--timer_count]);
}

int64_t sampler_count(void) { return taken < kMost ? taken : kMost; }
Sample* sampler_samples(void) { return samples; }
void sampler_clear(void) { taken = 0; }

/* Nanoseconds per call of what opscope's hook does once per operator or more often. */
static double per_call(void (*function)(void), long times) {
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (long i = 0; i < times; ++i) function();
  clock_gettime(CLOCK_MONOTONIC, &ended);
  return ((ended.tv_sec - began.tv_sec) * 1e9 + (ended.tv_nsec - began.tv_nsec)) / times;
}

static int (*ensure)(void);
static void (*release)(int);
static void system_call(void) { syscall(SYS_getppid); }
static void clock_call(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
}
static void lock_call(void) { release(ensure()); }
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void mutex_call(void) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static void signal_call(void) { pthread_cond_signal(&condition); }

/* To be called without the interpreter lock. */
void costs(void* ensure_lock, void* release_lock, double* out) {
  ensure = (int (*)(void))ensure_lock;
  release = (void (*)(int))release_lock;
  out[0] = per_call(system_call, 100000);
  out[1] = per_call(clock_call, 100000);
  out[2] = per_call(lock_call, 100000);
  out[3] = per_call(mutex_call, 100000);
  out[4] = per_call(signal_call, 100000);
}
