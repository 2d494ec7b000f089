/* The terminal of top: lines, keys, signals. Call all functions from one thread. */
#ifndef HOLDFAST_TERMINAL_H
#define HOLDFAST_TERMINAL_H

#include "show.h"

typedef enum {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_HEAD,
    TERM_CHOSEN,
    TERM_WARN,
    TERM_ALARM
} term_style;

/* Keys that are not characters; a character is its UTF-32 code. */
enum {
    TERM_NONE = -100, /* no key: the time has passed, or news_fd is readable */
    TERM_RESIZED,     /* resized, or stopped and resumed: redraw everything */
    TERM_ENDED,       /* a signal ends the program, see term_signal() */
    TERM_UP,
    TERM_DOWN,
    TERM_LEFT,
    TERM_RIGHT,
    TERM_PAGE_UP,
    TERM_PAGE_DOWN,
    TERM_HOME,
    TERM_END,
    TERM_BACKSPACE,
    TERM_ENTER,
    TERM_ESCAPE
};

/* Block signals except in term_wait(). Call it before this program starts a thread; the threads of
 * the library block all signals anyway. */
void term_hold_signals(void);
/* Open the terminal of stdin and stdout. False: failed, with the reason in `why`. */
bool term_open(show_text *why);
/* Restore the terminal. exit() does so, too. */
void term_close(void);

int term_rows(void);
int term_columns(void);
/* Draw a line of the screen, truncated or padded. NULL: an empty line. */
void term_line(int row, const show_text *text, term_style style);
/* Show the drawn screen, with the cursor at this row and column; row < 0: no cursor. */
void term_flush(int row, int column);
/* Wait for the next key; TERM_NONE after `ms`, or if news_fd is readable. */
int term_wait(int news_fd, int64_t ms);
/* Return the signal that ends the program, or 0. */
int term_signal(void);

#endif
