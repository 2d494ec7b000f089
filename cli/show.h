/*
 * What names, owners and times look like: on a terminal, in which no byte of theirs may do
 * anything but be read, in a shell, and as JSON.
 */
#ifndef HOLDFAST_SHOW_H
#define HOLDFAST_SHOW_H

#include <holdfast/holdfast.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* --------------------------------------------------------------- Terminal */

/* Call it first: the output's encoding and width. */
void show_begin(void);
/* The columns of the terminal that stdout is; 0: it is none. */
int show_columns(void);

/*
 * Text that people read. It grows as long as there is memory, and without it ends the program,
 * as all of this file does. Free it with show_free().
 */
typedef struct show_text {
    char *bytes; /* NUL-terminated */
    size_t length, capacity;
    int columns;
} show_text;

void show_free(show_text *text);
void show_clear(show_text *text);
/* Plain text of ours. */
void show_add(show_text *text, const char *plain);
/*
 * Somebody's bytes: what is printable in UTF-8 as it is, anything else, a backslash too,
 * as \n, \x1b or \u{202e}, so that no two look alike.
 */
void show_bytes(show_text *text, const void *bytes, size_t length);
/* A default owner as host/pid and what of it, with the client's name if that is not the
 * default; another one as its bytes. */
void show_owner(show_text *text, const void *owner, size_t length);
/* "870ms", "9s", "5m12s", "3h07m", "2d04h"; HF_NEVER is "never". */
void show_duration(show_text *text, int64_t ms);
void show_number(show_text *text, int64_t number);
/* The bytes as one word of bash, zsh or ksh, which no terminal obeys. False: none can be, because
 * there is a NUL in them. */
bool show_word(show_text *text, const void *bytes, size_t length);

/* The field in so many columns: filled up, and what does not fit cut off, with a mark. */
void show_add_column(show_text *line, const show_text *field, int columns, bool cut);
/* Some of another one's bytes, or all of them. */
void show_part(show_text *text, const show_text *from, size_t at, size_t length);
void show_add_text(show_text *text, const show_text *from);
/* How many of its bytes from `at` on fill so many columns at most, up to a line end or the last
 * space among them if it goes on behind that; at least one, if there is one. */
size_t show_line(const show_text *text, size_t at, int columns);
/* Memory, zeroed; more of it; or the pointer, if it is not NULL; else the end of the program. */
void *show_memory(size_t size);
void *show_more(void *memory, size_t size);
void *show_got(void *memory);

/* ------------------------------------------------------------------- JSON */

/* "<key>": the bytes as text; if they are no UTF-8, with U+FFFD for what is none, and besides
 * "<key>_hex", the bytes. */
void show_json_bytes(json_t *object, const char *key, const void *bytes, size_t length);
/* A duration in ms; HF_NEVER is null. */
void show_json_ms(json_t *object, const char *key, int64_t ms);
void show_json_number(json_t *object, const char *key, int64_t number);
void show_json_bool(json_t *object, const char *key, bool value);
void show_json_text(json_t *object, const char *key, const char *text);
void show_json_set(json_t *object, const char *key, json_t *value);
/* The owner, and, of a default one, where it is. */
void show_json_owner(json_t *object, const void *owner, size_t length);
/* A new object, or array; there is always memory for it. */
json_t *show_json_object(void);
json_t *show_json_array(void);
void show_json_append(json_t *array, json_t *value);
/* All of a look, without the lists' end: that is for show_json_view() of later ones. */
json_t *show_json_lock(const hf_lock_info *info, const hf_view *view);
void show_json_view(json_t *lock, const hf_view *view);
/* On one line of stdout; and gives it back. */
void show_json_line(json_t *object);

#endif
