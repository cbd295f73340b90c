// report_step says to the launcher how far this worker is: ddprun then knows better than by looking
// whether it hangs, and its reports name the step. It costs one write to memory; nothing needs it.
//
//   for (...) { report_step(step); ...; report_step_done(step); }
//
// In a step its own processor time is no move: it may spin as it waits for others. What it computes
// between two steps (an evaluation) is one where the end of each step is said, too.
//
// Under another launcher, or where nobody looks, it does nothing.
//
// Thread rule: any thread. The variable DDPRUN_PROGRESS is read at the first call.
#pragma once

#include <cstdint>

namespace ddprun::worker {

void report_step(std::uint64_t step);
void report_step_done(std::uint64_t step);

}  // namespace ddprun::worker
