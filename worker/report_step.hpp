// report_step tells the launcher which step this worker has reached. With it ddprun detects hangs
// more reliably than by observing the process, and its reports name the step. A call costs one
// write to memory. It is optional.
//
//   for (...) { report_step(step); ...; report_step_done(step); }
//
// Within a step, processor time does not count as progress, because the worker may be spinning
// while it waits for others. Between two steps it does (an evaluation, say), but only if
// report_step_done() marks the end of each step.
//
// It does nothing under another launcher, or if the launcher does not watch for hangs.
//
// Thread rule: any thread. Errors: none. The variable DDPRUN_PROGRESS is read at the first call.
#pragma once

#include <cstdint>

namespace ddprun::worker {

void report_step(std::uint64_t step);
void report_step_done(std::uint64_t step);

}  // namespace ddprun::worker
