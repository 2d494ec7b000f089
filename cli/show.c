#include "show.h"

#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"

static bool utf8; /* characters beyond ASCII may be printed */

void show_begin(void) {
    setlocale(LC_CTYPE, "");
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

int show_columns(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col > 0 ? size.ws_col : 80;
}

static void no_memory(void) {
    cli_error("out of memory");
    exit(CLI_SYSTEM);
}

void *show_got(void *memory) {
    if (memory == NULL)
        no_memory();
    return memory;
}

void *show_memory(size_t size) { return show_got(calloc(1, size)); }

void *show_more(void *memory, size_t size) { return show_got(realloc(memory, size)); }

char *show_copy(const void *bytes, size_t length) {
    char *made = show_memory(length + 1);
    return length > 0 ? memcpy(made, bytes, length) : made;
}

void *show_room(void *items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return items;
    *capacity = 2 * *capacity + 64;
    return show_more(items, *capacity * size);
}

int show_compare(const void *one, size_t length, const void *other, size_t other_length) {
    int order = memcmp(one, other, length < other_length ? length : other_length);
    return order != 0 ? order : (length > other_length) - (length < other_length);
}

/* ------------------------------------------------------------------ Text */

void show_free(show_text *text) {
    free(text->bytes);
    *text = (show_text){0};
}

void show_print(show_text *text, FILE *to) {
    fwrite(text->bytes, 1, text->length, to);
    show_free(text);
}

void show_clear(show_text *text) {
    text->length = 0;
    text->columns = 0;
    if (text->bytes != NULL)
        *text->bytes = '\0';
}

static void add(show_text *text, const char *bytes, size_t length, int columns) {
    if (text->length + length + 1 > text->capacity) {
        text->capacity = 2 * (text->length + length) + 64;
        text->bytes = show_more(text->bytes, text->capacity);
    }
    if (length > 0) /* an empty text has no bytes */
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->columns += columns;
    text->bytes[text->length] = '\0';
}

void show_add(show_text *text, const char *plain) {
    add(text, plain, strlen(plain), (int)strlen(plain));
}

/* Decode the first character, and return its length in bytes; 0: not UTF-8. */
static size_t decode(const unsigned char *at, size_t left, uint32_t *character) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (length == 0 || length > left || *at > 0xf4)
        return 0;
    *character = length == 1 ? *at : *at & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *character = *character << 6 | (at[i] & 0x3f);
    }
    bool surrogate = *character >= 0xd800 && *character <= 0xdfff;
    return surrogate || *character < least[length] || *character > 0x10ffff ? 0 : length;
}

/* Return its columns; -1: it is invisible, or moves its neighbours. */
static int width_of(uint32_t character) {
    if (character < 0x80)
        return character >= 0x20 && character < 0x7f ? 1 : -1;
    bool formats = character == 0xad || character == 0x61c || character == 0x180e ||
                   (character >= 0x200b && character <= 0x200f) ||
                   (character >= 0x2028 && character <= 0x202e) ||
                   (character >= 0x2060 && character <= 0x206f) || character == 0xfeff ||
                   (character >= 0xfff9 && character <= 0xfffb) || character >= 0xe0000;
    if (!utf8 || character < 0xa0 || formats)
        return -1;
    int width = wcwidth((wchar_t)character);
    return width > 0 ? width : -1; /* -1 also for combining characters */
}

static void add_escape(show_text *text, const unsigned char *at, size_t length,
                       uint32_t character) {
    static const char letters[] = "abtnvfr"; /* of the bytes 7 to 13 */
    char escape[16];
    if (length <= 1) {
        if (*at == '\\')
            snprintf(escape, sizeof escape, "\\\\");
        else if (*at >= 7 && *at <= 13)
            snprintf(escape, sizeof escape, "\\%c", letters[*at - 7]);
        else
            snprintf(escape, sizeof escape, "\\x%02x", *at);
    } else {
        snprintf(escape, sizeof escape, "\\u{%" PRIx32 "}", character);
    }
    show_add(text, escape);
}

void show_bytes(show_text *text, const void *bytes, size_t length) {
    const unsigned char *at = bytes, *end = at + length;
    if (length == 0)
        show_add(text, ""); /* allocates the text */
    while (at < end) {
        uint32_t character = 0;
        size_t size = decode(at, (size_t)(end - at), &character);
        int width = size > 0 && character != '\\' ? width_of(character) : -1;
        if (width > 0)
            add(text, (const char *)at, size, width);
        else
            add_escape(text, at, size, character);
        at += size > 0 ? size : 1;
    }
}

static const char *kind_of(const hf_owner_parts *parts) {
    return parts->kind == 't' ? "thread" : parts->kind == 'a' ? "task" : "operation";
}

void show_owner(show_text *text, const void *owner, size_t length) {
    hf_owner_parts parts = {.size = sizeof parts};
    char number[64];
    if (!hf_owner_parse(owner, length, &parts)) {
        show_bytes(text, owner, length);
        return;
    }
    if (strcmp(parts.client_name, "holdfast") != 0) {
        show_bytes(text, parts.client_name, strlen(parts.client_name));
        show_add(text, "@");
    }
    show_bytes(text, parts.host, strlen(parts.host));
    snprintf(number, sizeof number, "/%" PRId64 " %s %" PRId64, parts.pid, kind_of(&parts),
             parts.serial);
    show_add(text, number);
}

void show_owner_noted(show_text *text, const void *owner, size_t length, const void *note,
                      size_t note_length) {
    show_owner(text, owner, length);
    if (note_length == 0)
        return;
    show_add(text, " (");
    show_bytes(text, note, note_length);
    show_add(text, ")");
}

void show_number(show_text *text, int64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    show_add(text, digits);
}

void show_duration(show_text *text, int64_t ms) {
    char shown[40];
    int64_t s = ms / 1000;
    if (ms == HF_NEVER)
        snprintf(shown, sizeof shown, "never");
    else if (ms < 1000)
        snprintf(shown, sizeof shown, "%" PRId64 "ms", ms);
    else if (s < 60)
        snprintf(shown, sizeof shown, "%" PRId64 "s", s);
    else if (s < 3600)
        snprintf(shown, sizeof shown, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(shown, sizeof shown, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    else
        snprintf(shown, sizeof shown, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
    show_add(text, shown);
}

bool show_word(show_text *text, const void *bytes, size_t length) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    const unsigned char *from = bytes;
    bool as_is = length > 0, printable = true;
    if (memchr(bytes, '\0', length) != NULL)
        return false;
    for (size_t i = 0; i < length; i++) {
        as_is = as_is && strchr(plain, from[i]) != NULL;
        printable = printable && from[i] >= 0x20 && from[i] < 0x7f && from[i] != '\'';
    }
    if (as_is || printable) {
        show_add(text, as_is ? "" : "'");
        add(text, bytes, length, (int)length);
        show_add(text, as_is ? "" : "'");
        return true;
    }
    show_add(text, "$'");
    for (size_t i = 0; i < length; i++) {
        char escape[8];
        bool escapes = from[i] < 0x20 || from[i] >= 0x7f || from[i] == '\'' || from[i] == '\\';
        /* Three octal digits: a following digit cannot extend them. */
        snprintf(escape, sizeof escape, escapes ? "\\%03o" : "%c", from[i]);
        show_add(text, escape);
    }
    show_add(text, "'");
    return true;
}

/* Return how many bytes from `at` to `end` fit into `columns`. */
static size_t fitting(const show_text *text, size_t at, size_t end, int columns, int *used) {
    size_t from = at;
    *used = 0;
    while (at < end) {
        uint32_t character = 0;
        size_t size = decode((const unsigned char *)text->bytes + at, end - at, &character);
        int width = size > 1 ? width_of(character) : 1;
        if (*used + width > columns)
            break;
        *used += width;
        at += size > 0 ? size : 1;
    }
    return at - from;
}

void show_add_column(show_text *line, const show_text *field, int columns, bool cut) {
    int used = field->columns;
    if (cut && used > columns) {
        size_t length = fitting(field, 0, field->length, columns - 1, &used);
        add(line, field->bytes, length, used);
        add(line, utf8 ? "…" : ">", utf8 ? strlen("…") : 1, 1);
        used++;
    } else {
        add(line, field->bytes, field->length, used);
    }
    for (; used < columns; used++)
        add(line, " ", 1, 1);
}

void show_part(show_text *text, const show_text *from, size_t at, size_t length) {
    int columns;
    fitting(from, at, at + length, INT_MAX, &columns);
    add(text, from->bytes + at, length, columns);
}

void show_add_text(show_text *text, const show_text *from) {
    if (from->length > 0)
        add(text, from->bytes, from->length, from->columns);
}

size_t show_line(const show_text *text, size_t at, int columns) {
    int used;
    const char *line_end = memchr(text->bytes + at, '\n', text->length - at);
    size_t end = line_end != NULL ? (size_t)(line_end - text->bytes) : text->length;
    size_t length = fitting(text, at, end, columns, &used);
    if (at + length == end)
        return length;
    for (size_t i = length; i > 0; i--)
        if (text->bytes[at + i] == ' ')
            return i;
    return length > 0 ? length : 1;
}

/* ------------------------------------------------------------------ JSON */

static json_t *got(json_t *value) {
    if (value == NULL)
        no_memory();
    return value;
}

json_t *show_json_object(void) { return got(json_object()); }

json_t *show_json_array(void) { return got(json_array()); }

void show_json_set(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, got(value)) != 0)
        no_memory();
}

void show_json_append(json_t *array, json_t *value) {
    if (json_array_append_new(array, got(value)) != 0)
        no_memory();
}

void show_json_number(json_t *object, const char *key, int64_t number) {
    show_json_set(object, key, json_integer(number));
}

void show_json_bool(json_t *object, const char *key, bool value) {
    show_json_set(object, key, json_boolean(value));
}

void show_json_ms(json_t *object, const char *key, int64_t ms) {
    show_json_set(object, key, ms == HF_NEVER ? json_null() : json_integer(ms));
}

/* Return the bytes as a string, with U+FFFD for invalid bytes, or NULL. Set *whole to whether all
 * bytes are UTF-8. */
static json_t *string_of(const void *bytes, size_t length, bool *whole) {
    const unsigned char *from = bytes;
    show_text text = {0};
    uint32_t character;
    *whole = true;
    add(&text, "", 0, 0);
    for (size_t i = 0, size; i<length; i += size> 0 ? size : 1) {
        size = decode(from + i, length - i, &character);
        *whole = *whole && size > 0;
        add(&text, size > 0 ? (const char *)from + i : "\xef\xbf\xbd", size > 0 ? size : 3, 0);
    }
    json_t *string = json_stringn(text.bytes, text.length);
    show_free(&text);
    return string;
}

void show_json_text(json_t *object, const char *key, const char *text) {
    bool whole;
    show_json_set(object, key, string_of(text, strlen(text), &whole));
}

void show_json_bytes(json_t *object, const char *key, const void *bytes, size_t length) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    show_text text = {0}, name = {0};
    bool whole;
    show_json_set(object, key, string_of(bytes, length, &whole));
    if (!whole) {
        for (size_t i = 0; i < length; i++)
            add(&text, (char[]){hex[from[i] >> 4], hex[from[i] & 15]}, 2, 0);
        show_add(&name, key);
        show_add(&name, "_hex");
        show_json_set(object, name.bytes, json_stringn(text.bytes, text.length));
    }
    show_free(&text);
    show_free(&name);
}

void show_json_owner(json_t *object, const void *owner, size_t length) {
    hf_owner_parts parts = {.size = sizeof parts};
    show_json_bytes(object, "owner", owner, length);
    if (!hf_owner_parse(owner, length, &parts))
        return;
    show_json_bytes(object, "host", parts.host, strlen(parts.host));
    show_json_number(object, "pid", parts.pid);
    show_json_bytes(object, "client", parts.client_name, strlen(parts.client_name));
    show_json_number(object, kind_of(&parts), parts.serial);
}

void show_json_note(json_t *object, const void *note, size_t length) {
    if (length > 0)
        show_json_bytes(object, "note", note, length);
}

/* Print the value, and release it. */
static void print(json_t *value) {
    /* No control character may reach a terminal; json_dumps() leaves only DEL unescaped. */
    char *line = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    if (line == NULL)
        no_memory();
    for (const char *at = line; *at != '\0'; at++)
        if (*at == '\x7f')
            fputs("\\u007f", stdout);
        else
            putchar(*at);
    free(line);
    json_decref(value);
}

void show_json_string(const char *text) {
    bool whole;
    print(got(string_of(text, strlen(text), &whole)));
}

void show_json_line(json_t *object) {
    print(object);
    putchar('\n');
}
