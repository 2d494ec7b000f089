#include "terminal.h"

#include "cli.h"

/* The alternative, at the end of each error. */
#define INSTEAD "'holdfast top -b' works without it"

#ifdef HOLDFAST_CURSES

#include <errno.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The folders of all distributions for descriptions of terminals: the static library knows only the
 * folders of its own distribution. An empty part means those. */
#define TERMINFO_FOLDERS                                                                           \
    "/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo:"                           \
    "/usr/local/share/terminfo:"

static SCREEN *screen;
static sigset_t awake;          /* without the signals of term_hold_signals() */
static struct termios found_as; /* the modes before newterm() */
static volatile sig_atomic_t ended, resized, stopped;

/* --------------------------------------------------------------- Signals */

/* Exit although the terminal accepts no output: the last resort, on SIGALRM. */
static void give_up(int number) {
    (void)number;
    tcsetattr(STDIN_FILENO, TCSANOW, &found_as);
    _exit(CLI_SIGNAL + ended);
}

static void end(int number) {
    ended = number;
    alarm(1);
}

static void note(int number) {
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        stopped = 1;
    else
        end(number);
}

/* Let pending signals be handled. ppoll() alone does not if a descriptor is always ready. */
static void let_signals_come(bool come) {
    static sigset_t blocked;
    if (come)
        pthread_sigmask(SIG_SETMASK, &awake, &blocked);
    else
        pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

void term_hold_signals(void) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH, SIGTSTP};
    struct sigaction action = {.sa_handler = note}, last = {.sa_handler = give_up};
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&held, numbers[i]);
        sigaction(numbers[i], &action, NULL);
    }
    sigaction(SIGALRM, &last, NULL);
    tcgetattr(STDIN_FILENO, &found_as);
    pthread_sigmask(SIG_BLOCK, &held, &awake);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigdelset(&awake, numbers[i]);
}

int term_signal(void) { return ended; }

/* Stop this process, as Ctrl-Z does without a handler. */
static void stop(void) {
    struct sigaction ours, usual = {.sa_handler = SIG_DFL};
    sigset_t one, before;
    stopped = 0;
    endwin();
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    sigaction(SIGTSTP, &usual, &ours);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &one, &before); /* stops here until SIGCONT */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGTSTP, &ours, NULL);
    resized = 1;
}

static void resize(void) {
    struct winsize size;
    resized = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
    clearok(stdscr, TRUE);
}

/* ------------------------------------------------------------ Open, close */

/* Add the name of the terminal, for messages. */
static void add_terminal(show_text *why) {
    const char *name = getenv("TERM");
    name = name != NULL ? name : "";
    show_add(why, "'");
    show_bytes(why, name, strlen(name));
    show_add(why, "'");
}

static void add_unknown(show_text *why) {
    show_add(why, "top found no description of the terminal ");
    add_terminal(why);
    show_add(why, " (TERM): try TERM=xterm-256color or TERM=linux, install the package "
                  "ncurses-term or ncurses-base, or set TERMINFO to the folder of the "
                  "description; " INSTEAD);
}

static bool has(const char *capability) {
    const char *text = tigetstr(capability);
    return text != NULL && text != (char *)-1;
}

static void choose_colors(void) {
    const char *none = getenv("NO_COLOR");
    if ((none != NULL && *none != '\0') || !has_colors() || start_color() != OK)
        return;
    use_default_colors();
    init_pair(TERM_WARN, COLOR_YELLOW, -1);
    init_pair(TERM_ALARM, COLOR_RED, -1);
}

bool term_open(show_text *why) {
    setenv("TERMINFO_DIRS", TERMINFO_FOLDERS, 0);
    atexit(term_close);
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        add_unknown(why);
        return false;
    }
    if (!has("cup")) {
        term_close();
        show_add(why, "top needs a terminal that can position its cursor, and ");
        add_terminal(why);
        show_add(why, " (TERM) cannot; " INSTEAD);
        return false;
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(50);
    curs_set(0);
    choose_colors();
    return true;
}

void term_close(void) {
    if (screen == NULL)
        return;
    let_signals_come(true);
    endwin();
    let_signals_come(false);
    alarm(0);
    delscreen(screen);
    screen = NULL;
}

/* --------------------------------------------------------------- Drawing */

int term_rows(void) { return LINES; }

int term_columns(void) { return COLS; }

static attr_t attributes(term_style style) {
    switch (style) {
    case TERM_BOLD:
        return A_BOLD;
    case TERM_DIM:
        return A_DIM;
    case TERM_HEAD:
    case TERM_CHOSEN:
        return A_REVERSE;
    case TERM_WARN:
        return (attr_t)COLOR_PAIR(TERM_WARN);
    case TERM_ALARM:
        return A_BOLD | (attr_t)COLOR_PAIR(TERM_ALARM);
    default:
        return A_NORMAL;
    }
}

void term_line(int row, const show_text *text, term_style style) {
    show_text line = {0};
    if (row < 0 || row >= LINES)
        return;
    show_add_column(&line, text != NULL ? text : &line, COLS, true);
    attrset(attributes(style));
    mvaddnstr(row, 0, line.bytes, (int)line.length);
    attrset(A_NORMAL);
    show_free(&line);
}

void term_flush(int row, int column) {
    curs_set(row >= 0);
    if (row >= 0)
        move(row < LINES ? row : LINES - 1, column < COLS ? column : COLS - 1);
    let_signals_come(true); /* the terminal may accept no output */
    refresh();
    let_signals_come(false);
}

/* ------------------------------------------------------------------ Keys */

static int special(wint_t key) {
    static const struct {
        int theirs, ours;
    } keys[] = {
        {KEY_UP, TERM_UP},       {KEY_DOWN, TERM_DOWN},      {KEY_LEFT, TERM_LEFT},
        {KEY_RIGHT, TERM_RIGHT}, {KEY_PPAGE, TERM_PAGE_UP},  {KEY_NPAGE, TERM_PAGE_DOWN},
        {KEY_HOME, TERM_HOME},   {KEY_END, TERM_END},        {KEY_BACKSPACE, TERM_BACKSPACE},
        {KEY_ENTER, TERM_ENTER}, {KEY_RESIZE, TERM_RESIZED},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].theirs == (int)key)
            return keys[i].ours;
    return TERM_NONE;
}

static int read_key(void) {
    wint_t key;
    int kind = get_wch(&key);
    if (kind == KEY_CODE_YES)
        return special(key);
    if (kind == ERR)
        return TERM_NONE;
    return key == 127 || key == 8       ? TERM_BACKSPACE
           : key == '\r' || key == '\n' ? TERM_ENTER
           : key == 27                  ? TERM_ESCAPE
                                        : (int)key;
}

/* Return whether the terminal is closed, or at the end of its input. */
static bool is_gone(const struct pollfd *fds) {
    int bytes = 1;
    if ((fds[0].revents | fds[1].revents) & (POLLHUP | POLLERR | POLLNVAL))
        return true;
    return fds[0].revents & POLLIN && (ioctl(STDIN_FILENO, FIONREAD, &bytes) != 0 || bytes == 0);
}

int term_wait(int news_fd, int64_t ms) {
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = STDOUT_FILENO},
                           {.fd = news_fd, .events = POLLIN}};
    struct timespec time = {ms / 1000, ms % 1000 * 1000000}, none = {0};
    let_signals_come(true);
    let_signals_come(false);
    bool waits = !ended && !stopped && !resized;
    int key = waits ? read_key() : TERM_NONE; /* the library may have read ahead */
    int ready = ppoll(fds, 3, waits && key == TERM_NONE ? &time : &none, &awake);
    if (ready > 0 && is_gone(fds))
        end(SIGHUP);
    if (stopped && !ended)
        stop();
    if (ended)
        return TERM_ENDED;
    if (key != TERM_NONE)
        return key;
    if (resized) {
        resize();
        return TERM_RESIZED;
    }
    return ready > 0 && fds[0].revents & POLLIN ? read_key() : TERM_NONE;
}

#else

void term_hold_signals(void) {}

bool term_open(show_text *why) {
    show_add(why, "this holdfast was built without ncurses, which top needs; " INSTEAD);
    return false;
}

void term_close(void) {}
int term_rows(void) { return 0; }
int term_columns(void) { return 0; }
void term_line(int row, const show_text *text, term_style style) {
    (void)row, (void)text, (void)style;
}
void term_flush(int row, int column) { (void)row, (void)column; }
int term_wait(int news_fd, int64_t ms) {
    (void)news_fd, (void)ms;
    return TERM_ENDED;
}
int term_signal(void) { return 0; }

#endif
