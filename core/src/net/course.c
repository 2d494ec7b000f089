#include "net/course.h"

#include "base/simulated.h"

/* Redirections without a pause. */
#define REDIRECTIONS_AT_ONCE 3
/* Pauses grow, so that clients do not overload a server in trouble. */
#define PAUSE_MIN_MS 5
#define PAUSE_MAX_MS 100
/* The limit of pauses if the server itself asks to wait: it is loading its data, and each request
 * delays that. */
#define WAIT_MAX_MS 1000
/* The pause after a refusal, for a request that insists. */
#define INSIST_MS 200
/* The time that one more attempt needs after the pause. */
#define ATTEMPT_MS 10

static hf_step at_once(void) { return (hf_step){.what = HF_STEP_AGAIN}; }

static hf_step after_pause(hf_course *course, int64_t most_ms) {
    course->pause_ms = hf_backoff(course->pause_ms, PAUSE_MIN_MS, most_ms);
    return (hf_step){.what = HF_STEP_AGAIN, .pause_ms = course->pause_ms};
}

static int64_t longest_wait(const hf_outcome *outcome) {
    int64_t part = hf_until(outcome->deadline, outcome->now) / 4;
    return part < PAUSE_MAX_MS ? PAUSE_MAX_MS : part < WAIT_MAX_MS ? part : WAIT_MAX_MS;
}

/* Try again later, at whichever node then serves it. */
static hf_step later_anywhere(hf_course *course, const hf_outcome *outcome) {
    bool waits = outcome->after == HF_AFTER_WAIT;
    course->asking = false;
    course->redirections = 0; /* a circle leads to no other node */
    hf_step step = after_pause(course, waits ? longest_wait(outcome) : PAUSE_MAX_MS);
    step.look = outcome->clustered;
    return step;
}

/* Leave a useless server: the first time at once, later after a pause. In a cluster always after a
 * pause, because the new node is not known yet. */
static hf_step leave(hf_course *course, const hf_outcome *outcome) {
    bool first = course->pause_ms == 0 && !outcome->clustered;
    hf_step step = later_anywhere(course, outcome);
    step.pause_ms = first ? 0 : step.pause_ms;
    step.leave = true;
    return step;
}

static hf_step redirected(hf_course *course, const hf_outcome *outcome) {
    if (outcome->to < 0)
        return later_anywhere(course, outcome);
    course->asking = outcome->after == HF_AFTER_ASK;
    if (course->asking)
        course->node = outcome->to;
    if (++course->redirections > HF_REDIRECTIONS_MAX && !outcome->insists)
        return (hf_step){.what = HF_STEP_FAIL, .circle = true};
    return course->redirections > REDIRECTIONS_AT_ONCE ? after_pause(course, PAUSE_MAX_MS)
                                                       : at_once();
}

/* Follow a slot that is being moved while the keys are on two servers. */
static hf_step splits(hf_course *course) {
    HF_MARK("H7");
    bool tried = course->split;
    course->redirections = 0; /* this is not a circle */
    course->asking = false;
    course->split = true;
    hf_step step = after_pause(course, PAUSE_MAX_MS);
    step.what = tried ? HF_STEP_AGAIN : HF_STEP_ALONE;
    return step;
}

static hf_step wanted(hf_course *course, const hf_outcome *outcome) {
    switch (outcome->after) {
    case HF_AFTER_LOAD:
        if (course->whole)
            break;
        course->whole = true;
        return at_once();
    case HF_AFTER_MOVED:
    case HF_AFTER_ASK:
        return redirected(course, outcome);
    case HF_AFTER_SPLIT:
        return splits(course);
    case HF_AFTER_RECONNECT:
        HF_MARK("H14");
        return leave(course, outcome);
    case HF_AFTER_WAIT:
        HF_MARK("H9");
        break;
    case HF_AFTER_NOBODY:
        break;
    case HF_AFTER_SILENCE:
        course->doubtful = true;
        return leave(course, outcome);
    default:
        return outcome->insists ? (hf_step){.what = HF_STEP_AGAIN, .pause_ms = INSIST_MS}
                                : (hf_step){.what = HF_STEP_FAIL};
    }
    return later_anywhere(course, outcome);
}

/* Return whether the only node that can serve it has refused it. */
static bool stays(const hf_outcome *outcome) {
    bool refused = outcome->after != HF_AFTER_LOAD && outcome->after < HF_AFTER_NOBODY;
    return outcome->pinned && outcome->clustered && refused;
}

/* Return whether the request may continue. A closing client still follows redirections, because the
 * server is well. */
static bool may_go_on(const hf_outcome *outcome, const hf_step *step) {
    bool follows = (step->what == HF_STEP_ALONE || step->pause_ms == 0) && !step->leave;
    return follows || !outcome->hurried;
}

static bool has_time(const hf_outcome *outcome, const hf_step *step) {
    int64_t needs = (step->what == HF_STEP_ALONE ? 0 : step->pause_ms) + ATTEMPT_MS;
    return hf_until(outcome->deadline, outcome->now) > needs;
}

hf_step hf_course_next(hf_course *course, const hf_outcome *outcome) {
    hf_step step = wanted(course, outcome);
    if (step.what == HF_STEP_FAIL)
        return step;
    bool barred = stays(outcome) || !may_go_on(outcome, &step), timely = has_time(outcome, &step);
    /* The error only asked for the script's text. */
    step.late = !barred && !timely && outcome->after == HF_AFTER_LOAD;
    if (barred || !timely)
        step.what = HF_STEP_FAIL;
    return step;
}
