/* The events that the simulation (tests/sim) sees, and its decisions; elsewhere these macros are
 * empty. */
#ifndef HF_SIMULATED_H
#define HF_SIMULATED_H

#include <stdbool.h>

#ifdef HF_SIMULATED

/* Note that a defence is at work: the row of docs/interleavings.md. The seeds that reach it are
 * counted. */
void sim_mark(const char *row);
#define HF_MARK(row) sim_mark(row)

/* Return whether the rare but legal branch is taken here, without need. */
bool sim_unusual(const char *branch);
#define HF_UNUSUAL(branch) sim_unusual(branch)

#else

#define HF_MARK(row) ((void)0)
#define HF_UNUSUAL(branch) false

#endif

#endif
