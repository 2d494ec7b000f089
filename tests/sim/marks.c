/* Counts which defences the seeds have met, and decides when a rare branch is taken. */
#include "marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { MARKS = 512 };

static struct {
    const char *row;
    uint64_t hits;
} marks[MARKS];
static size_t mark_count;

void sim_mark(const char *row) {
    for (size_t i = 0; i < mark_count; i++)
        if (marks[i].row == row || strcmp(marks[i].row, row) == 0) {
            marks[i].hits++;
            return;
        }
    if (mark_count == MARKS)
        abort();
    marks[mark_count].row = row;
    marks[mark_count++].hits = 1;
}

/* Return whether to take a branch: never in most histories, often in some, as its name and the seed
 * decide. */
bool sim_unusual(const char *branch) {
    uint64_t hash = sim_set.seed;
    for (const char *c = branch; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    if (!sim_set.unusual || (hash >> 20) % 4 != 0 || !sim_chance(0.1))
        return false;
    sim_trace("takes the unusual branch %s", branch);
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void marks_tell(void) {
    qsort(marks, mark_count, sizeof *marks, by_name);
    for (size_t i = 0; i < mark_count; i++)
        printf("mark %s %llu\n", marks[i].row, (unsigned long long)marks[i].hits);
}
