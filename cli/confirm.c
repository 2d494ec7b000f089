#include "confirm.h"

#include <stdio.h>
#include <string.h>

bool confirm(const char *question) {
    char answer[16] = "";
    fprintf(stderr, "%s? [y/N] ", question);
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) == NULL)
        fputc('\n', stderr);
    return strcmp(answer, "y\n") == 0 || strcmp(answer, "Y\n") == 0 || strcmp(answer, "yes\n") == 0;
}
