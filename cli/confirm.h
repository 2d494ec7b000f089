/* A question on the terminal. */
#ifndef HOLDFAST_CONFIRM_H
#define HOLDFAST_CONFIRM_H

#include <stdbool.h>

/* Ask, and return whether the answer is yes. The end of the input means no. */
bool confirm(const char *question);

#endif
