/* The functions that base/simulated.h calls. */
#ifndef SIM_MARKS_H
#define SIM_MARKS_H

#include <stdbool.h>

void sim_mark(const char *row);
bool sim_unusual(const char *branch);
/* Print all marks that were met, with their counts, on stdout. */
void marks_tell(void);

#endif
