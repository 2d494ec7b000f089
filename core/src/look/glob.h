/* Patterns as Redis matches them: * ? [a-z] [^a] and \ before any of these. */
#ifndef HF_GLOB_H
#define HF_GLOB_H

#include <stdbool.h>
#include <stddef.h>

bool hf_glob(const char *pattern, size_t pattern_length, const char *text, size_t length);

#endif
