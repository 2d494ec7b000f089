/* The terminal of a live picture: lines, keys, signals. All of it needs one thread. */
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

/* Keys that are no character; a character is itself, as UTF-32. */
enum {
    TERM_NONE = -100, /* no key: the time has come, or there is news */
    TERM_RESIZED,     /* or it was stopped and resumed: draw all of it */
    TERM_ENDED,       /* a signal ends the program: term_signal() */
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

/* Before any thread begins: signals come to term_wait() alone. */
void term_hold_signals(void);
/* Takes the terminal that stdin and stdout are. False, and why not, in a sentence. */
bool term_open(show_text *why);
/* Gives it back as it was. The end of the program does so, too. */
void term_close(void);

int term_rows(void);
int term_columns(void);
/* A line of the screen, cut off or filled up to its end. NULL: an empty one. */
void term_line(int row, const show_text *text, term_style style);
/* What was drawn, with the cursor behind so many columns of that row; row < 0: without one. */
void term_flush(int row, int column);
/* The next key, or TERM_NONE after `ms` or if news_fd is readable. */
int term_wait(int news_fd, int64_t ms);
/* The signal that ended it; 0: none has. */
int term_signal(void);

#endif
