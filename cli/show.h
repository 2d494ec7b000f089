/*
 * Names, owners and times as text for a terminal, which none of their bytes may control, for a
 * shell, and as JSON.
 */
#ifndef HOLDFAST_SHOW_H
#define HOLDFAST_SHOW_H

#include <holdfast/holdfast.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* --------------------------------------------------------------- Terminal */

/* Set the encoding of the output. Call it first. */
void show_begin(void);
/* Return the columns of stdout; 0: not a terminal. */
int show_columns(void);

/*
 * Text for output, which grows as needed. All functions of this file exit if out of memory. Free it
 * with show_free().
 */
typedef struct show_text {
    char *bytes; /* NUL-terminated */
    size_t length, capacity;
    int columns;
} show_text;

void show_free(show_text *text);
void show_clear(show_text *text);
/* Add trusted text. */
void show_add(show_text *text, const char *plain);
/*
 * Add untrusted bytes: characters that are printable in UTF-8 unchanged, all others, and the
 * backslash, as \n, \x1b or \u{202e}, so that different bytes look different.
 */
void show_bytes(show_text *text, const void *bytes, size_t length);
/* Add a default owner as host/pid and thread or task, after the client's name if it is not the
 * default name; any other owner as bytes. */
void show_owner(show_text *text, const void *owner, size_t length);
/* Add an owner, and a note in parentheses if there is one. */
void show_owner_noted(show_text *text, const void *owner, size_t length, const void *note,
                      size_t note_length);
/* Add "870ms", "9s", "5m12s", "3h07m", "2d04h"; HF_NEVER is "never". */
void show_duration(show_text *text, int64_t ms);
void show_number(show_text *text, int64_t number);
/* Add the bytes as one word of bash, zsh or ksh, without control characters. False: impossible,
 * because they contain a NUL. */
bool show_word(show_text *text, const void *bytes, size_t length);

/* Add the field in `columns` columns: padded, or, if `cut`, truncated with a mark. */
void show_add_column(show_text *line, const show_text *field, int columns, bool cut);
/* Print all of it, and free it. */
void show_print(show_text *text, FILE *to);
/* Add a part of another text. */
void show_part(show_text *text, const show_text *from, size_t at, size_t length);
/* Add all of another text. */
void show_add_text(show_text *text, const show_text *from);
/* Return how many bytes from `at` on form a line of at most `columns` columns, up to a line end or,
 * if the text is longer, to the last space; at least 1, if any are left. */
size_t show_line(const show_text *text, size_t at, int columns);
/* Allocate zeroed memory; reallocate memory; return the pointer if it is not NULL. */
void *show_memory(size_t size);
void *show_more(void *memory, size_t size);
void *show_got(void *memory);
/* Return a copy with a NUL behind it, and the items with room for one more. */
char *show_copy(const void *bytes, size_t length);
void *show_room(void *items, size_t count, size_t *capacity, size_t size);
/* Compare as memcmp() does; if one begins with the other, the shorter is first. */
int show_compare(const void *one, size_t length, const void *other, size_t other_length);

/* ------------------------------------------------------------------- JSON */

/* Set "<key>" to the bytes as text; if they are not UTF-8, with U+FFFD for the invalid bytes, and
 * "<key>_hex" to all bytes. */
void show_json_bytes(json_t *object, const char *key, const void *bytes, size_t length);
/* Set a duration in ms; HF_NEVER is null. */
void show_json_ms(json_t *object, const char *key, int64_t ms);
void show_json_number(json_t *object, const char *key, int64_t number);
void show_json_bool(json_t *object, const char *key, bool value);
/* Set text that is UTF-8 except for a name in it, with U+FFFD for the invalid bytes. */
void show_json_text(json_t *object, const char *key, const char *text);
void show_json_set(json_t *object, const char *key, json_t *value);
/* Set the owner, and the host, pid and so on of a default owner. */
void show_json_note(json_t *object, const void *note, size_t length);
void show_json_owner(json_t *object, const void *owner, size_t length);
/* Return a new object or array, never NULL. */
json_t *show_json_object(void);
json_t *show_json_array(void);
void show_json_append(json_t *array, json_t *value);
/* Print the text as a JSON string on stdout, with U+FFFD for bytes that are not UTF-8. */
void show_json_string(const char *text);
/* Print the object on one line of stdout, and release it. */
void show_json_line(json_t *object);

#endif
