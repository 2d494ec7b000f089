/* The encoding of a command: "*<count>\r\n", and for each word "$<length>\r\n<bytes>\r\n". */
#ifndef HF_ENCODING_H
#define HF_ENCODING_H

#include "base/util.h"

#define HF_HEADER_MAX 24

/* Write "<kind><number>\r\n", and return its end. */
char *hf_header(char *to, char kind, size_t number);
/* Write how many words follow. */
void hf_encode_count(hf_bytes *bytes, size_t count);
/* Write a word of two parts. */
void hf_encode(hf_bytes *bytes, const void *data, size_t length, const void *more,
               size_t more_length);
/* Write a whole command. lengths: of the words, or NULL if each ends with a NUL. */
void hf_encode_words(hf_bytes *bytes, int count, const char *const *words, const size_t *lengths);

#endif
