#include "live.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <wchar.h>

#include "breaking.h"
#include "describe.h"
#include "terminal.h"

static const char help[] =
    "Up Down j k PgUp PgDn Home End g G   move\n"
    "Enter      show all holders and waiters of the lock; Esc goes back\n"
    "b          take the lock away from a holder, after a confirmation\n"
    "/          filter by a part of the name, a holder, a waiter or a note, or, with\n"
    "           * ? [, by a pattern for all of it; Esc removes the filter\n"
    "< >        change the sort key:\n"
    "W H L E N F C  most waiters, longest hold, longest wait, next end, name,\n"
    "           oldest fence, unknown outcome of a call\n"
    "r          reverse the order\n"
    "+ -        increase or decrease the delay\n"
    "Space      refresh now\n"
    "p          pause or resume\n"
    "h ?        this help\n"
    "q          go back or quit; Ctrl-C quits at once\n"
    "\n"
    "HELD is the age of the oldest hold, ENDS the time until the last hold ends\n"
    "unless it is renewed, WAIT the number of waiters, FIRST the wait of the first.\n"
    "'shared 3/5': a waiter allows five holders, and three hold the lock;\n"
    "'excl. x2': its owner holds it twice; 'foreign': another library's lock.\n"
    "'running': a call that is made once is in progress. With --once also those\n"
    "whose lock is free: 'unknown' (its outcome), 'retry', 'failed', 'done'.\n"
    "\n"
    "The cost is measured: the commands that this program sends, and the time until\n"
    "their replies, less the time of a PING.\n";

static const char hints[] =
    "h help  Enter details  b break  / filter  < > sort  r reverse  p pause  q quit";

enum { STATE_LINES = 3 }; /* at most, for the reason of a failure */

typedef enum { LIST, DETAILS, HELP } page;

typedef struct live {
    watch *watch;
    picture picture;
    page page;
    int64_t walks; /* exit after this number; 0: never */
    bool ends;

    /* The list. */
    size_t at, first; /* places of the chosen lock, and of the first on the screen */
    row *chosen;      /* only its name is used; NULL: the lock at `at` */
    show_text filter;
    bool typing;
    int64_t paused_at;

    /* One lock: its details, or a question. */
    row *subject; /* only its name is used */
    hf_lock_info info;
    hf_view *view;
    size_t scroll;
    int64_t looked_at;
    bool breaking; /* ask when the view arrives */
    bool asking;   /* the question is on the screen */
    size_t holder; /* the holder in the question */
    show_text question;

    show_text notice; /* shown until the next key */
} live;

static row *name_only(const void *name, size_t length) {
    row *one = show_memory(sizeof *one);
    one->name = show_copy(name, length);
    one->name_length = length;
    return one;
}

/* ------------------------------------------------------------------ List */

static const row *row_at(const live *it, size_t at) { return it->picture.entries[at]->row; }

/* Find the current place of the chosen lock; if it was dropped, keep the place. */
static void find_chosen(live *it) {
    for (size_t i = 0; it->chosen != NULL && i < it->picture.count; i++)
        if (row_compare_names(row_at(it, i), it->chosen) == 0) {
            it->at = i;
            break;
        }
    if (it->at >= it->picture.count)
        it->at = it->picture.count > 0 ? it->picture.count - 1 : 0;
}

/* Choose the lock at this place. The first place follows no lock: it stays first. */
static void choose(live *it, size_t at) {
    row_free(it->chosen);
    it->chosen = NULL;
    it->at = at < it->picture.count ? at : it->picture.count > 0 ? it->picture.count - 1 : 0;
    if (it->at > 0) {
        const row *one = row_at(it, it->at);
        it->chosen = name_only(one->name, one->name_length);
    }
}

/* Scroll the chosen lock onto the screen. */
static void scroll_list(live *it, size_t body) {
    if (it->first > it->at)
        it->first = it->at;
    if (it->at >= it->first + body)
        it->first = it->at - body + 1;
    if (it->first + body > it->picture.count)
        it->first = it->picture.count > body ? it->picture.count - body : 0;
}

static term_style style_of(const row *one) {
    return one->waiters > 0 ? TERM_WARN : one->held && !one->foreign ? TERM_PLAIN : TERM_DIM;
}

/* Return the time of the shown values: the last response of the server, if it fails now. */
static int64_t shown_at(const live *it) {
    return it->paused_at > 0               ? it->paused_at
           : it->watch->trouble.length > 0 ? it->watch->answered_at
                                           : cli_now();
}

static void draw_list(live *it, int row_from, int row_to) {
    row_layout layout =
        row_fit(term_columns(), term_columns() >= 110 || it->picture.key == ROW_FENCE);
    show_text line = {0};
    const row *visible[512];
    size_t count = 0;
    if (row_to - row_from > 1) {
        row_add_head(&line, &layout);
        term_line(row_from++, &line, TERM_HEAD);
    }
    size_t body = row_to > row_from ? (size_t)(row_to - row_from) : 1;
    scroll_list(it, body);
    for (size_t i = 0; i < body; i++) {
        size_t at = it->first + i;
        show_clear(&line);
        if (at < it->picture.count) {
            const row *one = row_at(it, at);
            row_add(&line, &layout, one, shown_at(it));
            if (count < sizeof visible / sizeof *visible)
                visible[count++] = one;
            term_line(row_from + (int)i, &line, at == it->at ? TERM_CHOSEN : style_of(one));
        } else {
            term_line(row_from + (int)i, NULL, TERM_PLAIN);
        }
    }
    watch_show(it->watch, visible, count);
    show_free(&line);
}

/* ------------------------------------------------------------------ Text */

/* Draw a text from its line `skip` on, wrapped at the screen; return its number of lines. */
static size_t draw_text(const show_text *text, size_t skip, int row_from, int row_to,
                        term_style style) {
    show_text line = {0};
    size_t count = 0, at = 0;
    int next = row_from;
    while (at < text->length) {
        size_t length = show_line(text, at, term_columns());
        if (count++ >= skip && next < row_to) {
            show_clear(&line);
            show_part(&line, text, at, length);
            term_line(next++, &line, style);
        }
        at += length;
        if (at < text->length && (text->bytes[at] == '\n' || text->bytes[at] == ' '))
            at++;
    }
    while (next < row_to)
        term_line(next++, NULL, TERM_PLAIN);
    show_free(&line);
    return count;
}

static void draw_page(live *it, int row_from, int row_to) {
    show_text text = {0};
    if (it->page == HELP) {
        show_add(&text, help);
    } else if (it->view == NULL) {
        show_add(&text, "...");
    } else {
        describe(&text, &it->info, it->view, 0);
        if (it->info.count > HF_VIEW_MAX || it->info.waiters > HF_VIEW_MAX)
            show_add(&text, "There are more: 'holdfast inspect' shows all\n");
    }
    size_t count = draw_text(&text, it->scroll, row_from, row_to, TERM_PLAIN);
    size_t body = row_to > row_from ? (size_t)(row_to - row_from) : 1;
    size_t most = count > body ? count - body : 0;
    if (it->scroll > most) {
        it->scroll = most;
        draw_text(&text, it->scroll, row_from, row_to, TERM_PLAIN);
    }
    show_free(&text);
}

/* Draw a text at the bottom. False: the screen is too small for it. */
static bool draw_bottom(const show_text *text, term_style style) {
    int rows = term_rows();
    int count = (int)draw_text(text, 0, rows, rows, style);
    draw_text(text, 0, rows > count ? rows - count : 0, rows, style);
    return count <= rows;
}

/* ----------------------------------------------------------------- Screen */

/* Add the server's URL without user, password and options. */
static void add_place(show_text *line) {
    const char *url = cli_url(), *rest = strstr(url, "://");
    rest = rest != NULL ? rest + 3 : url;
    for (size_t i = strcspn(rest, "/?"); i-- > 0;)
        if (rest[i] == '@') {
            rest += i + 1;
            break;
        }
    show_bytes(line, rest, strcspn(rest, "?"));
}

static void add_title(show_text *line, const live *it) {
    show_text right = {0}, left = {0};
    char clock[16] = "";
    time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    show_add(&right, " every ");
    if (it->watch->delay_ms % 1000 == 0)
        show_duration(&right, it->watch->delay_ms);
    else {
        show_number(&right, it->watch->delay_ms);
        show_add(&right, "ms");
    }
    show_add(&right, "  ");
    show_add(&right, clock);
    show_add(&left, "holdfast top  ");
    add_place(&left);
    if (strcmp(it->watch->pattern, "*") != 0) {
        show_add(&left, "  ");
        show_bytes(&left, it->watch->pattern, strlen(it->watch->pattern));
    }
    int room = term_columns() - right.columns;
    if (room > 20) {
        show_add_column(line, &left, room, true);
        show_add(line, right.bytes);
    } else {
        show_add(line, left.bytes);
    }
    show_free(&left);
    show_free(&right);
}

static term_style add_state(show_text *line, const live *it) {
    const watch *of = it->watch;
    if (of->trouble.length > 0) {
        show_add(line, "Not updated for ");
        show_duration(line, of->answered_at > 0 ? cli_now() - of->answered_at : 0);
        show_add(line, ": ");
        show_add_text(line, &of->trouble);
        return TERM_ALARM;
    }
    if (it->paused_at > 0)
        show_add(line, "Paused: p resumes");
    return TERM_WARN;
}

static void draw(live *it) {
    int rows = term_rows(), y = 0, bottom = rows >= 6 ? rows - 1 : rows, cursor = -1;
    show_text line = {0}, state = {0};
    const picture *shown = &it->picture;
    term_style style = add_state(&state, it);
    if (rows >= 10) {
        add_title(&line, it);
        term_line(y++, &line, TERM_BOLD);
        show_clear(&line);
        picture_add_counts(&line, shown);
        term_line(y++, &line, TERM_PLAIN);
        show_clear(&line);
        picture_add_cost(&line, shown, it->watch);
        term_line(y++, &line, TERM_PLAIN);
        int lines = (int)draw_text(&state, 0, y, y, style);
        lines = lines < 1 ? 1 : lines > STATE_LINES ? STATE_LINES : lines;
        draw_text(&state, 0, y, y + lines, style);
        y += lines;
    } else if (rows >= 4) {
        picture_add_counts(&line, shown);
        term_line(y++, state.length > 0 ? &state : &line, state.length > 0 ? style : TERM_PLAIN);
    }
    if (it->page == LIST)
        draw_list(it, y, bottom);
    else
        draw_page(it, y, bottom);
    show_clear(&line);
    if (it->typing) {
        show_add(&line, "Filter: ");
        show_add_text(&line, &it->filter);
        term_line(rows - 1, &line, TERM_BOLD);
        cursor = line.columns;
    } else if (it->asking) {
        if (!draw_bottom(&it->question, TERM_BOLD)) {
            it->asking = false;
            show_add(&it->notice, "no room for the question: use 'holdfast break'");
        }
    } else if (bottom < rows) {
        show_add(&line, it->page == LIST ? hints : "Esc q back  Up Down PgUp PgDn  b break");
        term_line(rows - 1, &line, TERM_DIM);
    }
    if (it->notice.length > 0)
        draw_bottom(&it->notice, TERM_BOLD);
    show_free(&line);
    show_free(&state);
    term_flush(cursor >= 0 ? rows - 1 : -1, cursor);
}

/* --------------------------------------------------------------- One lock */

static void look_again(live *it) {
    it->looked_at = cli_now();
    watch_ask(it->watch, WATCH_LOOK, it->subject->name, it->subject->name_length, 0);
}

/* Make the chosen lock the subject. False: there is no lock. */
static bool take_subject(live *it) {
    if (it->page == DETAILS)
        return true;
    if (it->page != LIST || it->picture.count == 0)
        return false;
    const row *one = row_at(it, it->at);
    row_free(it->subject);
    it->subject = name_only(one->name, one->name_length);
    hf_view_close(it->view);
    it->view = NULL;
    return true;
}

static int64_t add_question(live *it, show_text *text) {
    hf_lock_holder holder = {.size = sizeof holder};
    bool known = hf_view_holder(it->view, it->holder, &holder) == HF_OK;
    breaking_add(text, it->view, &it->info, &holder);
    return known ? holder.fence : 0;
}

static void ask(live *it) {
    size_t holders = hf_view_holders(it->view);
    it->breaking = false;
    show_clear(&it->notice);
    if (!it->info.held || (holders == 0 && !it->info.foreign)) {
        breaking_refuse(&it->notice, it->view, it->info.held ? " cannot be read now" : " is free");
        return;
    }
    it->asking = true;
    show_clear(&it->question);
    show_add(&it->question, "Take ");
    add_question(it, &it->question);
    show_add(&it->question, "? [y/N");
    if (holders > 1) {
        show_add(&it->question, "; Tab: the next of ");
        show_number(&it->question, (int64_t)holders);
    }
    show_add(&it->question, "]");
}

static void answer_question(live *it, int key) {
    size_t holders = hf_view_holders(it->view);
    if ((key == '\t' || key == TERM_DOWN) && holders > 1) {
        it->holder = (it->holder + 1) % holders;
        ask(it);
        return;
    }
    it->asking = false;
    show_clear(&it->question);
    if (key != 'y' && key != 'Y') {
        show_add(&it->notice, "nothing was done");
        return;
    }
    show_add(&it->question, "Took ");
    int64_t fence = add_question(it, &it->question);
    watch_ask(it->watch, WATCH_TAKE, it->subject->name, it->subject->name_length, fence);
}

static bool is_of_subject(const live *it, const hf_view *view) {
    row other = {0};
    if (view == NULL || it->subject == NULL)
        return false;
    other.name = (char *)hf_view_name(view, &other.name_length);
    return row_compare_names(&other, it->subject) == 0;
}

static void hear(live *it, watch_answer *answer) {
    if (answer->kind == WATCH_TAKE) {
        it->breaking = false;
        show_clear(&it->notice);
        show_add_text(&it->notice, answer->result == CLI_OK ? &it->question : &answer->why);
    } else if (answer->result != CLI_OK && (it->breaking || it->page == DETAILS)) {
        it->breaking = false;
        show_clear(&it->notice);
        show_add_text(&it->notice, &answer->why);
    }
    if (is_of_subject(it, answer->view) && !it->asking) {
        hf_view_close(it->view);
        it->view = answer->view;
        it->info = answer->info;
        answer->view = NULL;
        if (it->breaking) {
            it->holder = 0;
            ask(it);
        }
    }
    hf_view_close(answer->view);
    show_free(&answer->why);
}

/* ------------------------------------------------------------------- Keys */

static void add_character(show_text *text, int key) {
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    size_t length = wcrtomb(bytes, (wchar_t)key, &state);
    if (key >= ' ' && length != (size_t)-1)
        show_bytes(text, bytes, length);
}

/* Remove the last character. */
static void drop_character(show_text *text) {
    show_text rest = {0};
    size_t end = text->length;
    while (end > 0 && ((unsigned char)text->bytes[--end] & 0xc0) == 0x80)
        continue;
    show_part(&rest, text, 0, end);
    show_free(text);
    *text = rest;
}

static void type(live *it, int key) {
    if (key == TERM_ENTER || key == TERM_ESCAPE)
        it->typing = false;
    if (key == TERM_ESCAPE || key == ('u' & 0x1f))
        show_clear(&it->filter);
    else if (key == TERM_BACKSPACE)
        drop_character(&it->filter);
    else if (key >= ' ')
        add_character(&it->filter, key);
}

/* Move a position in pages of `body` lines; false: not a key for moving. */
static bool move(int key, size_t *at, size_t body) {
    switch (key) {
    case TERM_UP:
    case 'k':
        *at -= *at > 0;
        return true;
    case TERM_DOWN:
    case 'j':
        ++*at;
        return true;
    case TERM_PAGE_UP:
        *at -= *at > body ? body : *at;
        return true;
    case TERM_PAGE_DOWN:
        *at += body;
        return true;
    case TERM_HOME:
    case 'g':
        *at = 0;
        return true;
    case TERM_END:
    case 'G':
        *at = SIZE_MAX / 2;
        return true;
    default:
        return false;
    }
}

static void change_delay(watch *of, bool longer) {
    static const int64_t delays[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
    enum { COUNT = sizeof delays / sizeof *delays };
    int64_t next = of->delay_ms;
    for (size_t i = 0; i < COUNT; i++) {
        if (longer && delays[i] > of->delay_ms) {
            next = delays[i];
            break;
        }
        if (!longer && delays[i] < of->delay_ms)
            next = delays[i];
    }
    of->delay_ms = next;
    watch_wake(of);
}

static void sort(live *it, int key) {
    static const char letters[] = "WHLENFC"; /* in the order of row_key */
    const char *letter = key > 0 && key < 128 ? strchr(letters, key) : NULL;
    row_key *by = &it->picture.key;
    if (key == '>' || key == TERM_RIGHT)
        *by = (*by + 1) % ROW_KEYS;
    else if (key == '<' || key == TERM_LEFT)
        *by = (*by + ROW_KEYS - 1) % ROW_KEYS;
    else if (letter != NULL)
        *by = (row_key)(letter - letters);
}

static void pause_or_go_on(live *it) {
    it->watch->paused = !it->watch->paused;
    it->paused_at = it->watch->paused ? shown_at(it) : 0;
    watch_wake(it->watch);
}

static void press_in_list(live *it, int key) {
    size_t at = it->at, body = term_rows() > 8 ? (size_t)term_rows() - 6 : 1;
    if (move(key, &at, body)) {
        choose(it, at);
    } else if (key == TERM_ENTER && take_subject(it)) {
        it->page = DETAILS;
        it->scroll = 0;
        look_again(it);
    } else if (key == '/') {
        it->typing = true;
    } else if (key == TERM_ESCAPE) {
        show_clear(&it->filter);
    } else if (key == 'r') {
        it->picture.reverse = !it->picture.reverse;
    } else {
        sort(it, key);
    }
}

static void press(live *it, int key) {
    bool noted = it->notice.length > 0;
    show_clear(&it->notice);
    if (it->typing) {
        type(it, key);
    } else if (it->asking) {
        answer_question(it, key);
    } else if (key == 'q' && it->page == LIST) {
        it->ends = true;
    } else if (key == 'h' || key == '?') {
        it->page = HELP;
        it->scroll = 0;
    } else if (key == 'p') {
        pause_or_go_on(it);
    } else if (key == '+' || key == '-') {
        change_delay(it->watch, key == '+');
    } else if (key == ' ') {
        it->watch->hurried = true;
        watch_wake(it->watch);
    } else if (key == 'b' && take_subject(it)) {
        it->breaking = true;
        look_again(it);
    } else if (it->page == LIST) {
        if (!(noted && key == TERM_ESCAPE))
            press_in_list(it, key);
    } else if (key == TERM_ESCAPE || key == TERM_ENTER || key == 'q') {
        it->page = LIST;
    } else {
        move(key, &it->scroll, term_rows() > 8 ? (size_t)term_rows() - 5 : 1);
    }
}

/* -------------------------------------------------------------------- Run */

/* Take a new snapshot, and find the chosen lock in it. */
static void update(live *it) {
    it->picture.filter = it->filter.length > 0 ? it->filter.bytes : "";
    picture_take(&it->picture, it->watch);
    find_chosen(it);
}

static void turn(live *it, int key) {
    watch_answer answer;
    eventfd_t count;
    pthread_mutex_lock(&it->watch->mutex);
    eventfd_read(it->watch->news, &count);
    if (key >= TERM_UP) { /* characters, too */
        update(it);
        press(it, key);
    }
    if (watch_answered(it->watch, &answer))
        hear(it, &answer);
    if (it->page == DETAILS && !it->asking && !it->breaking && !it->watch->paused &&
        it->watch->errand.kind == WATCH_NOTHING && cli_now() >= it->looked_at + it->watch->delay_ms)
        look_again(it);
    update(it);
    picture_measure(&it->picture, it->watch, it->picture.per_second < 0 ? 500 : 2000);
    draw(it);
    it->ends = it->ends || (it->walks > 0 && it->watch->walks >= it->walks);
    pthread_mutex_unlock(&it->watch->mutex);
}

int live_run(watch *of, row_key key, bool reverse, int64_t walks) {
    live it = {.watch = of, .walks = walks};
    picture_open(&it.picture, key, reverse);
    for (int pressed = TERM_RESIZED; pressed != TERM_ENDED;) {
        int64_t before = cli_now();
        turn(&it, pressed);
        if (it.ends)
            break;
        /* Sorting many locks takes time: limit this to a fifth of a CPU. */
        int64_t took = cli_now() - before;
        pressed = term_wait(-1, 4 * took < 50 ? 50 : 4 * took);
        if (pressed == TERM_NONE)
            pressed = term_wait(of->news, 1000);
    }
    row_free(it.chosen);
    row_free(it.subject);
    hf_view_close(it.view);
    picture_close(&it.picture);
    show_free(&it.filter);
    show_free(&it.question);
    show_free(&it.notice);
    return term_signal() != 0 ? CLI_SIGNAL + term_signal() : CLI_OK;
}
