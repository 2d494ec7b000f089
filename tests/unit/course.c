/* The next step of a request: every row of the table. */
#include "../check.h"

#include "net/course.h"

enum { PATIENT = 10000 };

/* Return an error of a single server, with much time left. */
static hf_outcome error(hf_after_error after) {
    return (hf_outcome){.after = after, .to = -1, .now = 1, .deadline = 1 + PATIENT * HF_MS};
}

static hf_outcome in_cluster(hf_outcome outcome) {
    outcome.clustered = true;
    return outcome;
}

static hf_outcome to(hf_after_error after, int node) {
    hf_outcome outcome = in_cluster(error(after));
    outcome.to = node;
    return outcome;
}

static hf_outcome hurried(hf_outcome outcome) {
    outcome.hurried = true;
    return outcome;
}

static hf_outcome insisting(hf_outcome outcome) {
    outcome.insists = true;
    return outcome;
}

static hf_outcome pinned(hf_outcome outcome) {
    outcome.pinned = true;
    return outcome;
}

static hf_outcome with_ms_left(hf_outcome outcome, int64_t ms) {
    outcome.deadline = outcome.now + ms * HF_MS;
    return outcome;
}

#define AGAIN HF_STEP_AGAIN
#define ALONE HF_STEP_ALONE
#define FAIL HF_STEP_FAIL
#define NEW                                                                                        \
    { 0 }

static void test_every_row(void **state) {
    const struct {
        const char *what;
        hf_course before;
        hf_outcome outcome;
        hf_step step;
        hf_course after;
    } rows[] = {
        {"an error that stays", NEW, error(HF_AFTER_FAIL), {.what = FAIL}, NEW},
        {"one in doubt stays in doubt",
         {.doubtful = true},
         error(HF_AFTER_FAIL),
         {.what = FAIL},
         {.doubtful = true}},
        {"refused, to one that insists",
         NEW,
         insisting(error(HF_AFTER_FAIL)),
         {.what = AGAIN, .pause_ms = 200},
         NEW},
        {"no time left to insist",
         NEW,
         with_ms_left(insisting(error(HF_AFTER_FAIL)), 210),
         {.what = FAIL, .pause_ms = 200},
         NEW},

        {"NOSCRIPT", NEW, error(HF_AFTER_LOAD), {.what = AGAIN}, {.whole = true}},
        {"NOSCRIPT, in a hurry",
         NEW,
         hurried(error(HF_AFTER_LOAD)),
         {.what = AGAIN},
         {.whole = true}},
        {"NOSCRIPT after ASKING",
         {.asking = true, .node = 3},
         in_cluster(error(HF_AFTER_LOAD)),
         {.what = AGAIN},
         {.asking = true, .node = 3, .whole = true}},
        {"NOSCRIPT, pinned",
         NEW,
         pinned(in_cluster(error(HF_AFTER_LOAD))),
         {.what = AGAIN},
         {.whole = true}},
        {"NOSCRIPT, and no time to send the text",
         NEW,
         with_ms_left(error(HF_AFTER_LOAD), 10),
         {.what = FAIL, .late = true},
         {.whole = true}},
        {"NOSCRIPT to the whole text",
         {.whole = true},
         error(HF_AFTER_LOAD),
         {.what = AGAIN, .pause_ms = 5},
         {.whole = true, .pause_ms = 5}},

        {"LOADING", NEW, error(HF_AFTER_WAIT), {.what = AGAIN, .pause_ms = 5}, {.pause_ms = 5}},
        {"LOADING still",
         {.pause_ms = 40},
         error(HF_AFTER_WAIT),
         {.what = AGAIN, .pause_ms = 80},
         {.pause_ms = 80}},
        {"LOADING for long",
         {.pause_ms = 80},
         error(HF_AFTER_WAIT),
         {.what = AGAIN, .pause_ms = 160},
         {.pause_ms = 160}},
        {"LOADING for seconds",
         {.pause_ms = 640},
         error(HF_AFTER_WAIT),
         {.what = AGAIN, .pause_ms = 1000},
         {.pause_ms = 1000}},
        {"LOADING, with less time left",
         {.pause_ms = 640},
         with_ms_left(error(HF_AFTER_WAIT), 800),
         {.what = AGAIN, .pause_ms = 200},
         {.pause_ms = 200}},
        {"LOADING, in a hurry",
         NEW,
         hurried(error(HF_AFTER_WAIT)),
         {.what = FAIL, .pause_ms = 5},
         {.pause_ms = 5}},
        {"LOADING until too late",
         NEW,
         with_ms_left(error(HF_AFTER_WAIT), 15),
         {.what = FAIL, .pause_ms = 5},
         {.pause_ms = 5}},
        {"LOADING with just enough time",
         NEW,
         with_ms_left(error(HF_AFTER_WAIT), 16),
         {.what = AGAIN, .pause_ms = 5},
         {.pause_ms = 5}},
        {"CLUSTERDOWN",
         NEW,
         in_cluster(error(HF_AFTER_WAIT)),
         {.what = AGAIN, .pause_ms = 5, .look = true},
         {.pause_ms = 5}},
        {"CLUSTERDOWN after ASKING",
         {.asking = true, .node = 3},
         in_cluster(error(HF_AFTER_WAIT)),
         {.what = AGAIN, .pause_ms = 5, .look = true},
         {.node = 3, .pause_ms = 5}},
        {"CLUSTERDOWN, pinned",
         NEW,
         pinned(in_cluster(error(HF_AFTER_WAIT))),
         {.what = FAIL, .pause_ms = 5, .look = true},
         {.pause_ms = 5}},
        {"LOADING, pinned to the one server",
         NEW,
         pinned(error(HF_AFTER_WAIT)),
         {.what = AGAIN, .pause_ms = 5},
         {.pause_ms = 5}},

        {"READONLY",
         NEW,
         error(HF_AFTER_RECONNECT),
         {.what = AGAIN, .leave = true},
         {.pause_ms = 5}},
        {"READONLY again",
         {.pause_ms = 5},
         error(HF_AFTER_RECONNECT),
         {.what = AGAIN, .pause_ms = 10, .leave = true},
         {.pause_ms = 10}},
        {"READONLY in a Cluster",
         NEW,
         in_cluster(error(HF_AFTER_RECONNECT)),
         {.what = AGAIN, .pause_ms = 5, .leave = true, .look = true},
         {.pause_ms = 5}},
        {"READONLY, in a hurry",
         NEW,
         hurried(error(HF_AFTER_RECONNECT)),
         {.what = FAIL, .leave = true},
         {.pause_ms = 5}},

        {"MOVED", NEW, to(HF_AFTER_MOVED, 2), {.what = AGAIN}, {.redirections = 1}},
        {"MOVED, in a hurry",
         NEW,
         hurried(to(HF_AFTER_MOVED, 2)),
         {.what = AGAIN},
         {.redirections = 1}},
        {"MOVED a fourth time",
         {.redirections = 3},
         to(HF_AFTER_MOVED, 2),
         {.what = AGAIN, .pause_ms = 5},
         {.redirections = 4, .pause_ms = 5}},
        {"MOVED a fourth time, in a hurry",
         {.redirections = 3},
         hurried(to(HF_AFTER_MOVED, 2)),
         {.what = FAIL, .pause_ms = 5},
         {.redirections = 4, .pause_ms = 5}},
        {"MOVED in circles",
         {.redirections = 16, .doubtful = true},
         to(HF_AFTER_MOVED, 2),
         {.what = FAIL, .circle = true},
         {.redirections = 17, .doubtful = true}},
        {"MOVED in circles, to one that insists",
         {.redirections = 16, .pause_ms = 80},
         insisting(to(HF_AFTER_MOVED, 2)),
         {.what = AGAIN, .pause_ms = 100},
         {.redirections = 17, .pause_ms = 100}},
        {"MOVED to nowhere",
         NEW,
         to(HF_AFTER_MOVED, -1),
         {.what = AGAIN, .pause_ms = 5, .look = true},
         {.pause_ms = 5}},
        {"MOVED, pinned", NEW, pinned(to(HF_AFTER_MOVED, 2)), {.what = FAIL}, {.redirections = 1}},
        {"MOVED after ASKING",
         {.asking = true, .node = 3},
         to(HF_AFTER_MOVED, 2),
         {.what = AGAIN},
         {.node = 3, .redirections = 1}},
        {"MOVED too late",
         NEW,
         with_ms_left(to(HF_AFTER_MOVED, 2), 10),
         {.what = FAIL},
         {.redirections = 1}},
        {"ASK",
         NEW,
         to(HF_AFTER_ASK, 2),
         {.what = AGAIN},
         {.asking = true, .node = 2, .redirections = 1}},
        {"ASK to nowhere",
         {.asking = true, .node = 3},
         to(HF_AFTER_ASK, -1),
         {.what = AGAIN, .pause_ms = 5, .look = true},
         {.node = 3, .pause_ms = 5}},
        {"TRYAGAIN",
         {.asking = true, .node = 3, .redirections = 9},
         in_cluster(error(HF_AFTER_SPLIT)),
         {.what = ALONE, .pause_ms = 5},
         {.node = 3, .split = true, .pause_ms = 5}},
        {"TRYAGAIN, in a hurry",
         NEW,
         hurried(in_cluster(error(HF_AFTER_SPLIT))),
         {.what = ALONE, .pause_ms = 5},
         {.split = true, .pause_ms = 5}},
        {"TRYAGAIN, split already",
         {.split = true},
         in_cluster(error(HF_AFTER_SPLIT)),
         {.what = AGAIN, .pause_ms = 5},
         {.split = true, .pause_ms = 5}},

        {"unreached", NEW, error(HF_AFTER_NOBODY), {.what = AGAIN, .pause_ms = 5}, {.pause_ms = 5}},
        {"unreached in a Cluster",
         {.asking = true, .node = 3},
         in_cluster(error(HF_AFTER_NOBODY)),
         {.what = AGAIN, .pause_ms = 5, .look = true},
         {.node = 3, .pause_ms = 5}},
        {"unreached after many ASKs",
         {.asking = true, .node = 3, .redirections = 16},
         in_cluster(error(HF_AFTER_NOBODY)),
         {.what = AGAIN, .pause_ms = 5, .look = true},
         {.node = 3, .pause_ms = 5}},
        {"unreached, in a hurry",
         NEW,
         hurried(error(HF_AFTER_NOBODY)),
         {.what = FAIL, .pause_ms = 5},
         {.pause_ms = 5}},
        {"dead",
         NEW,
         error(HF_AFTER_SILENCE),
         {.what = AGAIN, .leave = true},
         {.doubtful = true, .pause_ms = 5}},
        {"dead, pinned",
         NEW,
         pinned(in_cluster(error(HF_AFTER_SILENCE))),
         {.what = AGAIN, .pause_ms = 5, .leave = true, .look = true},
         {.doubtful = true, .pause_ms = 5}},
        {"dead, in a hurry",
         NEW,
         hurried(error(HF_AFTER_SILENCE)),
         {.what = FAIL, .leave = true},
         {.doubtful = true, .pause_ms = 5}},
        {"dead too late",
         NEW,
         with_ms_left(error(HF_AFTER_SILENCE), 5),
         {.what = FAIL, .leave = true},
         {.doubtful = true, .pause_ms = 5}},
        {"dead again",
         {.pause_ms = 5},
         error(HF_AFTER_SILENCE),
         {.what = AGAIN, .pause_ms = 10, .leave = true},
         {.doubtful = true, .pause_ms = 10}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        hf_course course = rows[i].before;
        hf_step step = hf_course_next(&course, &rows[i].outcome);
        const hf_step *wanted = &rows[i].step;
        const hf_course *after = &rows[i].after;
        bool same = step.what == wanted->what && step.pause_ms == wanted->pause_ms &&
                    step.look == wanted->look && step.leave == wanted->leave &&
                    step.circle == wanted->circle && step.late == wanted->late;
        if (!same)
            fail_msg("%s: step %d, %lld ms, look %d, leave %d, circle %d, late %d", rows[i].what,
                     (int)step.what, (long long)step.pause_ms, step.look, step.leave, step.circle,
                     step.late);
        same = course.node == after->node && course.asking == after->asking &&
               course.whole == after->whole && course.split == after->split &&
               course.doubtful == after->doubtful && course.redirections == after->redirections &&
               course.pause_ms == after->pause_ms;
        if (!same)
            fail_msg("%s: node %d, asking %d, whole %d, split %d, doubtful %d, redirections %d, "
                     "%lld ms",
                     rows[i].what, course.node, course.asking, course.whole, course.split,
                     course.doubtful, course.redirections, (long long)course.pause_ms);
    }
}

/* Whatever a server answers, a request is not sent for ever without a pause. */
static void test_no_answer_is_met_at_once_for_ever(void **state) {
    (void)state;
    for (int after = HF_AFTER_FAIL; after <= HF_AFTER_SILENCE; after++)
        for (int bits = 0; bits < 32; bits++) {
            hf_course course = NEW;
            hf_outcome outcome = to((hf_after_error)after, bits & 1 ? 2 : -1);
            outcome.clustered = bits & 2;
            outcome.hurried = bits & 4;
            outcome.insists = bits & 8;
            outcome.pinned = bits & 16;
            int at_once = 0, steps = 0;
            hf_step step;
            do {
                step = hf_course_next(&course, &outcome);
                at_once += step.what == HF_STEP_ALONE || step.pause_ms == 0;
            } while (step.what != HF_STEP_FAIL && ++steps < 100);
            assert_in_range(at_once, 0, 4);
            assert_in_range(step.pause_ms, 0, 1000);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_no_answer_is_met_at_once_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
