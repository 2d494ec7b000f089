/*
 * The header in Python: the extension holdfast._holdfast, whose functions the
 * hand-written classes call with raw handles, and the module holdfast._native,
 * which registers the destructors and has the option structs.
 */
%module(package="holdfast") _native

%{
#include <time.h>
#include <unistd.h>
%}

/* Not for Python: other functions do the same, or Python does not need them. */
%ignore hf_error_last;
%ignore hf_error_message;
%ignore hf_lock_acquire;
%ignore hf_lock_release;
%ignore hf_lock_close;
%ignore hf_hold_close;
%ignore hf_completion;
%ignore hf_error;
%ignore hf_finding;
%ignore hf_lock_holder;
%ignore hf_lock_waiter;
%ignore hf_view;
%ignore hf_view_close;
%ignore hf_view_name;
%ignore hf_view_once;
%ignore HF_LOCKS_RECORDS;
%ignore hf_view_holder;
%ignore hf_view_holders;
%ignore hf_view_waiter;
%ignore hf_view_waiters;
%ignore hf_locks_close;
%ignore hf_brake;
%ignore hf_brake_open;
%ignore hf_brake_close;
%ignore hf_brake_set;
%ignore hf_brake_pull;

/* ---------------------------------------------------------------- Errors */

%{
/* Return the cause of a loss, the number of replicas, or which of several locks it was. */
static long long hf_detail(int status, const hf_error *error)
{
    return status == HF_ELOST ? error->cause : status == HF_EREPLICAS ? error->replicas : error->lock;
}

/* Raise the exception that holdfast._errors makes from a status and this thread's error. */
static void hf_raise(int status)
{
    /* Read the error first: the functions called below may call the library. */
    const char *text = hf_error_message();
    long long detail = hf_detail(status, hf_error_last());
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
    PyObject *errors = message ? PyImport_ImportModule("holdfast._errors") : NULL;
    PyObject *error =
        errors ? PyObject_CallMethod(errors, "error", "iOL", status, message, detail) : NULL;
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(message);
    Py_XDECREF(errors);
    Py_XDECREF(error);
}
%}

%typemap(out) hf_status {
    if ($1 != HF_OK) {
        /* A signal handler may have raised, and so ended the wait. */
        if (!PyErr_Occurred())
            hf_raise($1);
        SWIG_fail;
    }
    $result = Py_None;
    Py_INCREF($result);
}

/* The status and its message: the handle of hf_once_begin() is the hold, or has an outcome. */
%typemap(out) hf_status hf_once_begin {
    /* A signal handler may have raised before the outcome arrived. */
    if (PyErr_Occurred() || ($1 != HF_OK && $1 != HF_EDONE && $1 != HF_EFAILED &&
                             $1 != HF_EOUTCOME && $1 != HF_EMISMATCH)) {
        if (!PyErr_Occurred())
            hf_raise($1);
        SWIG_fail;
    }
    $result = Py_BuildValue("is", (int)$1, $1 != HF_OK ? hf_error_message() : "");
}
%typemap(out) hf_status hf_once_mark = hf_status hf_once_begin;

/* --------------------------------------------------------------- Signals */

%{
/* Run the handlers of signals, which Python does only in its main thread. */
static int hf_run_handlers(void *context)
{
    (void)context;
    if (gettid() != getpid())
        return -1;
    PyGILState_STATE state = PyGILState_Ensure();
    int raised = PyErr_CheckSignals();
    PyGILState_Release(state);
    return raised ? 1 : 0;
}
%}
%typemap(in, numinputs = 0) (hf_interrupt check, void *context) "$1 = hf_run_handlers; $2 = NULL;"

/* ----------------------------------------------------------------- Bytes */

/* bytes in; None becomes NULL. */
%typemap(in) (const void *bytes, size_t length) {
    $1 = NULL;
    $2 = 0;
    if ($input != Py_None) {
        char *bytes;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize($input, &bytes, &length))
            SWIG_fail;
        $1 = bytes;
        $2 = (size_t)length;
    }
}
%apply (const void *bytes, size_t length) {
    (const void *name, size_t name_len),
    (const void *owner, size_t owner_len),
    (const void *pattern, size_t pattern_len),
    (const void *token, size_t token_len),
    (const void *result, size_t result_len),
    (const void *print, size_t print_len),
    (const void *note, size_t note_len)
};

/* hf_once_outcome() returns (state, at_most_once, printed, fence, since_ms, ttl_ms, result_len,
 * owner, note). */
%ignore hf_once_info;
%typemap(in, numinputs = 0) hf_once_info *info (hf_once_info info) {
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    $1 = &info;
}
%typemap(argout) hf_once_info *info {
    Py_DECREF($result);
    $result = Py_BuildValue("iiiLLLLy#y#", (int)$1->state, (int)$1->at_most_once,
                            (int)$1->printed, (long long)$1->fence, (long long)$1->since_ms,
                            (long long)$1->ttl_ms, (long long)$1->result_len,
                            (const char *)$1->owner, (Py_ssize_t)$1->owner_len,
                            (const char *)$1->note, (Py_ssize_t)$1->note_len);
}

/* hf_hold_result() returns the bytes, or None. */
%typemap(in, numinputs = 0) size_t *result_len_out (size_t length = 0) "$1 = &length;"
%typemap(out) const void *hf_hold_result {
    $result = Py_None;
    Py_INCREF($result);
}
%typemap(argout) size_t *result_len_out {
    if (result) {
        Py_DECREF($result);
        $result = PyBytes_FromStringAndSize(result, (Py_ssize_t)*$1);
    }
}

/*
 * A view is a tuple: the name, and lists of the holders (owner, note, mode, fence, count, held_ms,
 * remaining_ms, kept, weight) and of the waiters (owner, note, mode, permits, waited_ms, timeout_ms,
 * weight). None: there is no view.
 */
%{
static int hf_append(PyObject *list, PyObject *item)
{
    int failed = !item || PyList_Append(list, item);
    Py_XDECREF(item);
    return failed;
}

static PyObject *hf_view_tuple(const hf_view *view)
{
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    size_t length;
    const char *name = hf_view_name(view, &length);
    PyObject *holders = PyList_New(0), *waiters = PyList_New(0);
    int failed = !holders || !waiters;
    for (size_t i = 0; !failed && i < hf_view_holders(view); i++) {
        hf_view_holder(view, i, &holder);
        failed = hf_append(holders,
                           Py_BuildValue("y#y#iLLLLiL", (const char *)holder.owner,
                                         (Py_ssize_t)holder.owner_len, (const char *)holder.note,
                                         (Py_ssize_t)holder.note_len, (int)holder.mode,
                                         (long long)holder.fence, (long long)holder.count,
                                         (long long)holder.held_ms,
                                         (long long)holder.remaining_ms, (int)holder.kept,
                                         (long long)holder.weight));
    }
    for (size_t i = 0; !failed && i < hf_view_waiters(view); i++) {
        hf_view_waiter(view, i, &waiter);
        failed = hf_append(waiters,
                           Py_BuildValue("y#y#iLLLL", (const char *)waiter.owner,
                                         (Py_ssize_t)waiter.owner_len, (const char *)waiter.note,
                                         (Py_ssize_t)waiter.note_len, (int)waiter.mode,
                                         (long long)waiter.permits, (long long)waiter.waited_ms,
                                         (long long)waiter.timeout_ms, (long long)waiter.weight));
    }
    if (!failed)
        return Py_BuildValue("y#NN", name, (Py_ssize_t)length, holders, waiters);
    Py_XDECREF(holders);
    Py_XDECREF(waiters);
    return NULL;
}
%}
%typemap(in, numinputs = 0) hf_view **view_out (hf_view *view = NULL) "$1 = &view;"
%typemap(argout) hf_view **view_out {
    if (*$1) {
        Py_DECREF($result);
        $result = hf_view_tuple(*$1);
        hf_view_close(*$1);
        if (!$result)
            SWIG_fail;
    }
}

/* hf_client_survey() returns a list of (level, subject, server, text). */
%typemap(in, numinputs = 0) (hf_finding *findings, size_t capacity, size_t *count_out)
    (hf_finding findings[HF_FINDINGS_MAX], size_t count = 0) {
    $1 = findings;
    $2 = HF_FINDINGS_MAX;
    $3 = &count;
}
%typemap(argout) (hf_finding *findings, size_t capacity, size_t *count_out) {
    Py_DECREF($result);
    $result = PyList_New(0);
    for (size_t i = 0; $result && i < *$3; i++) {
        const hf_finding *at = &$1[i];
        PyObject *each = Py_BuildValue("isss", (int)at->level, at->subject, at->server, at->text);
        if (!each || PyList_Append($result, each))
            Py_CLEAR($result);
        Py_XDECREF(each);
    }
    if (!$result)
        SWIG_fail;
}

/* hf_hold_votes() returns both numbers. */
%typemap(in, numinputs = 0) size_t *masters_out (size_t masters = 0) "$1 = &masters;"
%typemap(argout) size_t *masters_out {
    Py_DECREF($result);
    $result = Py_BuildValue("nn", (Py_ssize_t)result, (Py_ssize_t)*$1);
}

/* hf_client_ping() returns no number. */
%typemap(in, numinputs = 0) size_t *servers_out "$1 = NULL;"

/* hf_client_kept() returns the name's bytes, or None. */
%typemap(in, numinputs = 0) (void *name, size_t capacity, size_t *name_len_out)
    (char name[HF_NAME_MAX], size_t length = 0) {
    $1 = name;
    $2 = sizeof name;
    $3 = &length;
}
%typemap(argout) (void *name, size_t capacity, size_t *name_len_out) {
    if (result == HF_OK) {
        Py_DECREF($result);
        $result = PyBytes_FromStringAndSize($1, (Py_ssize_t)*$3);
    }
}
%typemap(out) hf_status hf_client_kept {
    if ($1 != HF_OK && $1 != HF_ENOTHELD) {
        hf_raise($1);
        SWIG_fail;
    }
    $result = Py_None;
    Py_INCREF($result);
}

/* hf_hold_hand_over() returns the token's bytes. */
%typemap(in, numinputs = 0) (void *token, size_t capacity, size_t *token_len_out)
    (char token[HF_TOKEN_MAX], size_t length = 0) {
    $1 = token;
    $2 = sizeof token;
    $3 = &length;
}
%typemap(argout) (void *token, size_t capacity, size_t *token_len_out) {
    Py_DECREF($result);
    $result = PyBytes_FromStringAndSize($1, (Py_ssize_t)*$3);
}

/* hf_client_owner() returns bytes. */
%typemap(in, numinputs = 0) (char *buffer, size_t capacity) (char owner[HF_DEFAULT_OWNER_MAX]) {
    $1 = owner;
    $2 = sizeof owner;
}
%typemap(argout) (char *buffer, size_t capacity) {
    Py_DECREF($result);
    $result = PyBytes_FromString($1);
}

/* --------------------------------------------------------------- Handles */

/*
 * Handles are raw: a proxy would cost more than the call. Locks and holds are
 * given back with their last reference. A client is not: closing it would
 * release its holds, which may still be in use.
 */
%define %answers(HANDLE, FLAGS)
%typemap(in, numinputs = 0) HANDLE **(HANDLE *handle = NULL) "$1 = &handle;"
%typemap(argout) HANDLE ** {
    Py_DECREF($result);
    $result = SWIG_NewPointerObj(*$1, $*1_descriptor, SWIG_POINTER_NOSHADOW | FLAGS);
}
%enddef
%answers(struct hf_client, 0)
%answers(struct hf_lock, SWIG_POINTER_OWN)
%answers(struct hf_locks, SWIG_POINTER_OWN)

%{
/* Release a hold that the caller does not get, because there is no memory for a Python object:
 * otherwise the client would renew it until the process ends. */
static void hf_undo(hf_hold *hold)
{
    PyObject *type, *value, *trace;
    if (!hold)
        return;
    PyErr_Fetch(&type, &value, &trace); /* signal handlers run during the release */
    Py_BEGIN_ALLOW_THREADS
    hf_hold_release(hold);
    Py_END_ALLOW_THREADS
    hf_hold_close(hold);
    PyErr_Restore(type, value, trace);
}

/* Append the hold to the caller's list, which then owns it. */
static int hf_give(PyObject *list, hf_hold **hold, swig_type_info *type)
{
    PyObject *given = SWIG_NewPointerObj(*hold, type, SWIG_POINTER_NOSHADOW | SWIG_POINTER_OWN);
    int failed = !given || PyList_Append(list, given);
    if (!failed)
        *hold = NULL;
    else if (given)
        SWIG_Python_GetSwigThis(given)->own = 0;
    Py_XDECREF(given);
    return failed;
}

/* Undo a new hold that the caller does not get; leave a hold that the function found. */
static void hf_take_back(hf_hold *hold, const char *function)
{
    if (!strcmp(function, "hf_lock_acquire_as") || !strcmp(function, "hf_once_begin"))
        hf_undo(hold);
    else
        hf_hold_close(hold);
}
%}

/* A hold is put into the caller's list, so that the caller has it even if Ctrl-C
 * arrives before the call returns. */
%typemap(in) struct hf_hold ** (struct hf_hold *handle = NULL) {
    if (!PyList_Check($input))
        SWIG_exception_fail(SWIG_TypeError, "a hold goes into a list");
    $1 = &handle;
}
%typemap(argout) struct hf_hold ** {
    if (hf_give($input, $1, $*1_descriptor))
        SWIG_fail;
}
%typemap(freearg) struct hf_hold ** "if ($1) hf_take_back(*$1, \"$symname\"); /* the call raises */"

/* Several locks are a list, with a list of their options; their holds are put into a third list. */
%{
/* Return the number of pointers of the type in the list; -1: not such a list. */
static Py_ssize_t hf_pointers(PyObject *list, swig_type_info *type, void **to)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (i == HF_JOIN_MAX ||
            !SWIG_IsOK(SWIG_ConvertPtr(PyList_GetItem(list, i), &to[i], type, 0)))
            return -1;
    return count;
}
%}
%typemap(in) (hf_lock *const *locks, size_t count) (void *given[HF_JOIN_MAX]) {
    Py_ssize_t count = hf_pointers($input, $descriptor(struct hf_lock *), given);
    if (count < 0)
        SWIG_exception_fail(SWIG_TypeError, "this takes a list of locks");
    $1 = (hf_lock **)given;
    $2 = (size_t)count;
}
%typemap(argout) (hf_lock *const *locks, size_t count) "" /* not a result */
%typemap(in) const hf_acquire_options *const *options (void *given[HF_JOIN_MAX]) {
    if (hf_pointers($input, $descriptor(hf_acquire_options *), given) != (Py_ssize_t)arg2)
        SWIG_exception_fail(SWIG_TypeError, "this takes a list of options, one for each lock");
    $1 = (hf_acquire_options **)given;
}
%typemap(in) hf_hold **holds_out (hf_hold *holds[HF_JOIN_MAX]) {
    if (!PyList_Check($input))
        SWIG_exception_fail(SWIG_TypeError, "the holds go into a list");
    memset(holds, 0, sizeof holds);
    $1 = holds;
}
%typemap(argout) hf_hold **holds_out {
    for (size_t i = 0; i < arg2; i++)
        if (hf_give($input, &$1[i], $descriptor(struct hf_hold *)))
            SWIG_fail;
}
%typemap(freearg) hf_hold **holds_out {
    for (size_t i = 0; $1 && i < arg2; i++)
        hf_undo($1[i]);
}

%extend hf_lock {
    ~hf_lock() { hf_lock_close($self); }
}
%extend hf_locks {
    ~hf_locks() { hf_locks_close($self); }
}
%extend hf_hold {
    ~hf_hold() { hf_hold_close($self); }
}

/* --------------------------------------------------------------- Numbers */

/* A histogram's counts are a list; holdfast.testing also sets them. */
%typemap(out) int64_t counts[ANY] {
    $result = PyList_New($1_dim0);
    for (Py_ssize_t i = 0; $result && i < $1_dim0; i++) {
        PyObject *count = PyLong_FromLongLong($1[i]);
        if (count)
            PyList_SET_ITEM($result, i, count);
        else
            Py_CLEAR($result);
    }
    if (!$result)
        SWIG_fail;
}
%typemap(in) int64_t counts[ANY] (int64_t counts[$1_dim0]) {
    PyObject *given = PySequence_Tuple($input);
    for (Py_ssize_t i = 0; given && i < $1_dim0; i++) {
        PyObject *count = PyTuple_GetItem(given, i);
        counts[i] = count ? PyLong_AsLongLong(count) : 0;
    }
    Py_XDECREF(given);
    if (PyErr_Occurred())
        SWIG_fail;
    $1 = counts;
}

/* ----------------------------------------------------------- Completions */

/* hf_client_next() puts (kind, status, op, hold's number, hold or None, hf_detail(), message,
 * timeouts, name, number of holds, ms left) first in the caller's list, so that the caller has it
 * even if a signal handler raises before the call returns. */
%typemap(in) hf_completion * (hf_completion completion, char buffer[HF_NAME_MAX]) {
    if (!PyList_Check($input) || PyList_Size($input) < 1)
        SWIG_exception_fail(SWIG_TypeError, "a completion replaces the first item of a list");
    memset(&completion, 0, sizeof completion);
    completion.size = sizeof completion;
    completion.name = buffer;
    completion.name_capacity = sizeof buffer;
    $1 = &completion;
}
%{
static PyObject *hf_completion_tuple(const hf_completion *told)
{
    const char *text = told->error.message;
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
    PyObject *hold = Py_None, *all = NULL;
    if (told->hold)
        hold = SWIG_NewPointerObj(told->hold, SWIG_TypeQuery("struct hf_hold *"),
                                  SWIG_POINTER_NOSHADOW | SWIG_POINTER_OWN);
    else
        Py_INCREF(hold);
    if (message && hold)
        all = Py_BuildValue("iiLLOLOLy#LL", (int)told->kind, (int)told->status, (long long)told->op,
                            (long long)told->hold_number, hold,
                            hf_detail(told->status, &told->error), message,
                            (long long)told->timeouts, told->name, (Py_ssize_t)told->name_len,
                            (long long)told->holds, (long long)told->left_ms);
    if (!all && hold && told->hold)
        SWIG_Python_GetSwigThis(hold)->own = 0; /* else it would be closed with this object */
    Py_XDECREF(message);
    Py_XDECREF(hold);
    return all;
}
%}
%typemap(argout) hf_completion * {
    /* The client returns no completion twice, and a task waits for it: wait for memory. */
    PyObject *told;
    while (!(told = hf_completion_tuple($1)) && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        Py_END_ALLOW_THREADS
    }
    if (!told || PyList_SetItem($input, 0, told))
        SWIG_fail;
}

/* Called after hf_lock_open(), which reports every other error. */
%exception hf_client_fd {
    $action
    if (result < 0) {
        hf_raise(HF_ENOMEM);
        SWIG_fail;
    }
}

/* -------------------------------------------------------------- Blocking */

/* Other Python threads run during each of these functions. */
%define %blocking(FUNCTION)
%exception FUNCTION {
    Py_BEGIN_ALLOW_THREADS
    $action
    Py_END_ALLOW_THREADS
}
%enddef
%blocking(hf_client_open)
%blocking(hf_client_close)
%blocking(hf_client_ping)
%blocking(hf_client_survey)
%blocking(hf_lock_acquire_as)
%blocking(hf_lock_acquire_all)
%blocking(hf_lock_release_as)
%blocking(hf_lock_inspect)
%blocking(hf_locks_next)
%typemap(in, numinputs = 0) (int64_t *permits_was, int64_t *per_ms_was) (int64_t permits, int64_t per_ms) {
    $1 = &permits;
    $2 = &per_ms;
}
%typemap(argout) (int64_t *permits_was, int64_t *per_ms_was) {
    Py_DECREF($result);
    $result = Py_BuildValue("LL", (long long)*$1, (long long)*$2);
}
%blocking(hf_lock_limit)
%blocking(hf_lock_break)
%blocking(hf_lock_adopt)
%blocking(hf_once_begin)
%blocking(hf_once_mark)
%blocking(hf_once_finish)
%blocking(hf_once_look)
%blocking(hf_once_settle)
%blocking(hf_hold_release)
%blocking(hf_hold_renew)
%blocking(hf_hold_extend)
%blocking(hf_hold_check)
%blocking(hf_hold_keep)
%blocking(hf_hold_hand_over)

%include "holdfast.i"
