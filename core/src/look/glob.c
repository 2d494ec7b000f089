#include "look/glob.h"

typedef struct span {
    const unsigned char *at, *end;
} span;

/* Take one class in brackets off the pattern, which begins after the bracket; return whether the
 * byte is in it. A class without an end reaches to the end of the pattern. */
static bool in_class(span *pattern, unsigned char byte) {
    bool inverted = pattern->at < pattern->end && *pattern->at == '^', found = false;
    for (pattern->at += inverted; pattern->at < pattern->end && *pattern->at != ']';) {
        unsigned char low = *pattern->at++, high = low;
        if (low == '\\' && pattern->at < pattern->end) {
            low = high = *pattern->at++;
        } else if (pattern->end - pattern->at >= 2 && *pattern->at == '-') {
            high = pattern->at[1];
            pattern->at += 2;
        }
        found = found || (low <= high ? low <= byte && byte <= high : high <= byte && byte <= low);
    }
    pattern->at += pattern->at < pattern->end;
    return found != inverted;
}

/* Take the part for one byte off the pattern; return whether it matches this byte. */
static bool is_byte(span *pattern, unsigned char byte) {
    unsigned char what = *pattern->at++;
    if (what == '?')
        return true;
    if (what == '[')
        return in_class(pattern, byte);
    if (what == '\\' && pattern->at < pattern->end)
        what = *pattern->at++;
    return what == byte;
}

bool hf_glob(const char *pattern, size_t pattern_length, const char *text, size_t length) {
    span rest = {(const unsigned char *)pattern, (const unsigned char *)pattern + pattern_length};
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    /* The pattern after the last star, and the byte up to which that star reaches: only the last
     * star needs to be tried again. */
    const unsigned char *star = NULL, *reached = NULL;
    while (at < end || rest.at < rest.end) {
        if (rest.at < rest.end && *rest.at == '*') {
            star = ++rest.at;
            reached = at;
            continue;
        }
        if (at < end && rest.at < rest.end && is_byte(&rest, *at)) {
            at++;
            continue;
        }
        if (star == NULL || reached == end)
            return false;
        rest.at = star;
        at = ++reached;
    }
    return true;
}
