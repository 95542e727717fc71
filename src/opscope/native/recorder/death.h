// How a process ends, noted in the ring by whatever sees it last.
#pragma once

#include <cstdint>

namespace opscope {

// What is started when the process is about to end without being able to tell: a program and its
// environment, both ending with null. The memory must stay.
void prepare_witness(char** words, char** environment, int stack_signal);

// Starts it, once per process; safe in a signal handler.
void call_witness();

// Has a signal noted before whoever handles it now gets it; again after somebody has set a handler.
bool watch_signal(int signal);

// Looks every so often whether operators still run; 0 seconds stop looking.
void watch_for_hang(uint64_t seconds);

// In a forked child, where that which looks is no more.
void forget_thread();

// Nothing is noted or started from now on.
void forget_death();

// What to remove, files before their folders, when the process leaves with the code 0 after its ring was
// said to have ended well. The memory must stay.
void remove_after_good_end(char** paths);

// Has the code noted that the process leaves with.
void watch_exit();

}  // namespace opscope
