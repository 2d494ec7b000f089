/*
 * The header in Java: the class Core, whose functions take and return raw
 * handles, and the option structs. They are in io.holdfast.internal.core, which
 * the module does not export; the hand-written classes of the library ensure
 * that a handle is given back once, and never during a running call.
 */
%module Core

%pragma(java) moduleclassmodifiers = "public final class"
%pragma(java) jniclassclassmodifiers = "final class"
%pragma(java) constantsmodifiers = "public interface"
%pragma(java) jniclasscode = %{
  static {
    NativeLibrary.load();
  }
%}

/* Literals, for a switch; except the macros that are not literals in Java. */
%javaconst(1);
%javaconst(0) HF_FOREVER;
%javaconst(0) HF_NEVER;
%javaconst(0) HF_STORED;
%javaconst(0) HF_ACQUIRE_KEEP;
%javaconst(0) HF_ACQUIRE_HOLDS;
%javaconst(0) HF_ACQUIRE_WHOLE;
%javaconst(0) HF_ACQUIRE_AT_MOST_ONCE;
%javaconst(0) HF_SETTLE_FORCE;
%javaconst(0) HF_EXTEND_REPLACE;

/* Not for Java: other functions do the same, or Java does not need them. */
%ignore hf_client;
%ignore hf_lock;
%ignore hf_hold;
%ignore hf_brake;
%ignore hf_locks;
%ignore hf_status_name;
%ignore hf_error_message;
%ignore hf_lock_acquire;
%ignore hf_lock_acquire_all;
%ignore hf_lock_release;
%ignore hf_client_set_interrupt;
%ignore hf_client_stop;
%ignore hf_brake_set;
%ignore hf_lock_acquire_as;
%ignore hf_once_begin;
%ignore hf_once_finish;
%ignore hf_once_info::owner_len;
%ignore hf_once_info::note_len;
%ignore hf_finding;
%ignore HF_FINDINGS_MAX;
%ignore hf_completion::size;
%ignore hf_completion::name_capacity;
%ignore hf_completion::name_len;
%ignore hf_lock_holder;
%ignore hf_lock_waiter;
%ignore hf_view;
%ignore hf_view_close;
%ignore hf_view_name;
%ignore hf_view_once;
%ignore hf_view_holder;
%ignore hf_view_holders;
%ignore hf_view_waiter;
%ignore hf_view_waiters;
%ignore HF_KIND_RENEWAL;
%ignore HF_TOKEN_MAX;
%ignore HF_DEFAULT_OWNER_MAX;
%ignore HF_LEASE_MIN;
%ignore HF_LEASE_MAX;
%ignore HF_PERMITS_MAX;
%ignore HF_AHEAD_MAX;
%ignore HF_LEASE_DEFAULT;
%ignore HF_RATE_DEFAULT;
%ignore HF_VIEW_MAX;
%ignore HF_ACQUIRE_INTERRUPTIBLE;
%ignore HF_BREAK_FOREIGN;
%ignore HF_LOCKS_RECORDS;

/* ---------------------------------------------------------------- Errors */

%{
/* Throw the exception that the class Status makes from a status and this thread's message. */
static void hf_raise(JNIEnv *env, hf_status status)
{
    /*
     * Read the message first: a virtual thread may continue on another thread of the
     * system, and the code below may call the library.
     */
    const char *text = hf_error_message();
    jsize length = (jsize)strlen(text);
    jbyteArray message = (*env)->NewByteArray(env, length);
    if (!message)
        return;
    (*env)->SetByteArrayRegion(env, message, 0, length, (const jbyte *)text);
    jclass raiser = (*env)->FindClass(env, "io/holdfast/internal/redis/Status");
    if (!raiser)
        return;
    jmethodID raise = (*env)->GetStaticMethodID(env, raiser, "raise", "(I[B)V");
    if (raise)
        (*env)->CallStaticVoidMethod(env, raiser, raise, (jint)status, message);
}

static jbyteArray hf_bytes(JNIEnv *env, const void *bytes, size_t length)
{
    jbyteArray array = (*env)->NewByteArray(env, (jsize)length);
    if (array)
        (*env)->SetByteArrayRegion(env, array, 0, (jsize)length, bytes);
    return array;
}
%}

/*
 * After raising, the rest of the wrapper still runs, and gives the arrays back.
 * Its result is then ignored.
 */
%typemap(out) hf_status {
    if ($1 != HF_OK)
        hf_raise(jenv, $1);
    $result = $1;
}

/* An error's text as byte[]: the JVM's "UTF-8" is not UTF-8. */
%nodefaultctor hf_error;
%nodefaultdtor hf_error;
%immutable hf_error::replicas;
%immutable hf_error::cause;
%immutable hf_error::lock;
%immutable hf_error::message;
%typemap(jni) char message[ANY] "jbyteArray"
%typemap(jtype) char message[ANY] "byte[]"
%typemap(jstype) char message[ANY] "byte[]"
%typemap(javaout) char message[ANY] { return $jnicall; }
%typemap(out) char message[ANY] "$result = hf_bytes(jenv, $1, strlen($1));"
%immutable hf_owner_parts::client_id;
%immutable hf_owner_parts::client_name;
%immutable hf_owner_parts::host;
%apply char message[ANY] { char client_id[ANY], char host[ANY] };
%apply char message[ANY] { char hf_owner_parts::client_name[ANY] };

/* ----------------------------------------------------------------- Bytes */

/* byte[] in; null becomes NULL. */
%typemap(jni) (const void *bytes, size_t length) "jbyteArray"
%typemap(jtype) (const void *bytes, size_t length) "byte[]"
%typemap(jstype) (const void *bytes, size_t length) "byte[]"
%typemap(javain) (const void *bytes, size_t length) "$javainput"
%typemap(in) (const void *bytes, size_t length) {
    $1 = NULL;
    $2 = 0;
    if ($input) {
        $1 = (*jenv)->GetByteArrayElements(jenv, $input, NULL);
        if (!$1)
            return $null;
        $2 = (size_t)(*jenv)->GetArrayLength(jenv, $input);
    }
}
%typemap(freearg) (const void *bytes, size_t length) {
    if ($1)
        (*jenv)->ReleaseByteArrayElements(jenv, $input, (jbyte *)$1, JNI_ABORT);
}
%apply (const void *bytes, size_t length) {
    (const void *name, size_t name_len),
    (const void *owner, size_t owner_len),
    (const void *pattern, size_t pattern_len),
    (const void *token, size_t token_len),
    (const void *result, size_t result_len),
    (const void *note, size_t note_len),
    (const void *print, size_t print_len)
};

/* hf_hold_result() returns the bytes, or null. */
%typemap(jni) const void *hf_hold_result "jbyteArray"
%typemap(jtype) const void *hf_hold_result "byte[]"
%typemap(jstype) const void *hf_hold_result "byte[]"
%typemap(javaout) const void *hf_hold_result { return $jnicall; }
%typemap(out) const void *hf_hold_result "$result = NULL;"
%typemap(in, numinputs = 0) size_t *result_len_out (size_t length = 0) "$1 = &length;"
%typemap(argout) size_t *result_len_out {
    if (result)
        $result = hf_bytes(jenv, result, *$1);
}

/* The owner and the note of a call as byte[]. */
%immutable hf_once_info::owner;
%immutable hf_once_info::note;
%define %part(PART)
%typemap(jni) const void *hf_once_info::PART "jbyteArray"
%typemap(jtype) const void *hf_once_info::PART "byte[]"
%typemap(jstype) const void *hf_once_info::PART "byte[]"
%typemap(javaout) const void *hf_once_info::PART { return $jnicall; }
%typemap(out) const void *hf_once_info::PART {
    $result = hf_bytes(jenv, $1, arg1->PART ## _len);
}
%enddef
%part(owner)
%part(note)

/* hf_once_mark() returns its status, and raises nothing. */
%typemap(out) hf_status hf_once_mark "$result = $1;"

/* hf_client_open()'s URL as byte[]: the JVM's "UTF-8" is not UTF-8. */
%typemap(jni) const char *url "jbyteArray"
%typemap(jtype) const char *url "byte[]"
%typemap(jstype) const char *url "byte[]"
%typemap(javain) const char *url "$javainput"
%typemap(in) const char *url {
    jsize length = (*jenv)->GetArrayLength(jenv, $input);
    char *url = calloc(1, (size_t)length + 1);
    if (!url) {
        (*jenv)->ThrowNew(jenv, (*jenv)->FindClass(jenv, "java/lang/OutOfMemoryError"), NULL);
        return $null;
    }
    (*jenv)->GetByteArrayRegion(jenv, $input, 0, length, (jbyte *)url);
    $1 = url;
}
%typemap(freearg) const char *url "free($1);"

/* A function's out-parameter is its result in Java. */
%define %answer(FUNCTION, JNI, JAVA)
%typemap(jni) hf_status FUNCTION #JNI
%typemap(jtype) hf_status FUNCTION #JAVA
%typemap(jstype) hf_status FUNCTION #JAVA
%typemap(javaout) hf_status FUNCTION "{ return $jnicall; }"
%typemap(out) hf_status FUNCTION {
    $result = 0;
    if ($1 != HF_OK)
        hf_raise(jenv, $1);
}
%enddef
%answer(hf_client_open, jlong, long)
%answer(hf_client_owner, jbyteArray, byte[])
%answer(hf_lock_open, jlong, long)
%answer(hf_brake_open, jlong, long)
/* hf_lock_limit() returns both numbers that were stored before. */
%answer(hf_lock_limit, jlongArray, long[])
%typemap(in, numinputs = 0) (int64_t *permits_was, int64_t *per_ms_was) (int64_t was[2]) {
    $1 = &was[0];
    $2 = &was[1];
}
%typemap(argout) (int64_t *permits_was, int64_t *per_ms_was) {
    const jlong both[] = {*$1, *$2};
    if (result == HF_OK && ($result = (*jenv)->NewLongArray(jenv, 2)))
        (*jenv)->SetLongArrayRegion(jenv, $result, 0, 2, both);
}
%answer(hf_lock_inspect, jobjectArray, Object[])
%answer(hf_locks_next, jobjectArray, Object[])
%answer(hf_locks_open, jlong, long)
%answer(hf_hold_hand_over, jbyteArray, byte[])
%answer(hf_client_name_stats, jbyteArray, byte[])

%typemap(in, numinputs = 0) (char *buffer, size_t capacity) (char buffer[HF_DEFAULT_OWNER_MAX]) {
    $1 = buffer;
    $2 = sizeof buffer;
}
%typemap(argout) (char *buffer, size_t capacity) {
    if (result == HF_OK)
        $result = hf_bytes(jenv, $1, strlen($1));
}

/*
 * A view is an array: the name; the owner and note of each holder in a byte[][], and in a long[] the
 * mode, fence, count, held_ms, remaining_ms, kept and weight of each; the owner and note of each
 * waiter, and the mode, permits, waited_ms, timeout_ms and weight of each. null: there is no view.
 */
%{
/* Put an element; null: an OutOfMemoryError is pending. */
static void hf_put(JNIEnv *env, jobjectArray array, jsize at, jobject item)
{
    if (item) {
        (*env)->SetObjectArrayElement(env, array, at, item);
        (*env)->DeleteLocalRef(env, item);
    }
}

static jobjectArray hf_array(JNIEnv *env, const char *kind, size_t length)
{
    jclass class = (*env)->FindClass(env, kind);
    return class ? (*env)->NewObjectArray(env, (jsize)length, class, NULL) : NULL;
}

static jobjectArray hf_view_array(JNIEnv *env, const hf_view *view)
{
    enum { NAME, HOLDERS, HOLDINGS, WAITERS, WAITINGS, PARTS };
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    size_t length, holders = hf_view_holders(view), waiters = hf_view_waiters(view);
    jobjectArray array = hf_array(env, "java/lang/Object", PARTS), owners;
    jlongArray numbers;
    if (!array)
        return NULL;
    const void *name = hf_view_name(view, &length);
    hf_put(env, array, NAME, hf_bytes(env, name, length));
    owners = hf_array(env, "[B", 2 * holders);
    numbers = owners ? (*env)->NewLongArray(env, (jsize)(7 * holders)) : NULL;
    for (size_t i = 0; numbers && i < holders; i++) {
        hf_view_holder(view, i, &holder);
        jlong each[7] = {holder.mode, holder.fence, holder.count, holder.held_ms,
                         holder.remaining_ms, holder.kept, holder.weight};
        (*env)->SetLongArrayRegion(env, numbers, (jsize)(7 * i), 7, each);
        hf_put(env, owners, (jsize)(2 * i), hf_bytes(env, holder.owner, holder.owner_len));
        hf_put(env, owners, (jsize)(2 * i + 1), hf_bytes(env, holder.note, holder.note_len));
    }
    if (!numbers || (*env)->ExceptionCheck(env))
        return NULL;
    hf_put(env, array, HOLDERS, owners);
    hf_put(env, array, HOLDINGS, numbers);
    owners = hf_array(env, "[B", 2 * waiters);
    numbers = owners ? (*env)->NewLongArray(env, (jsize)(5 * waiters)) : NULL;
    for (size_t i = 0; numbers && i < waiters; i++) {
        hf_view_waiter(view, i, &waiter);
        jlong each[5] = {waiter.mode, waiter.permits, waiter.waited_ms, waiter.timeout_ms,
                         waiter.weight};
        (*env)->SetLongArrayRegion(env, numbers, (jsize)(5 * i), 5, each);
        hf_put(env, owners, (jsize)(2 * i), hf_bytes(env, waiter.owner, waiter.owner_len));
        hf_put(env, owners, (jsize)(2 * i + 1), hf_bytes(env, waiter.note, waiter.note_len));
    }
    if (!numbers || (*env)->ExceptionCheck(env))
        return NULL;
    hf_put(env, array, WAITERS, owners);
    hf_put(env, array, WAITINGS, numbers);
    return array;
}
%}
%typemap(in, numinputs = 0) hf_view **view_out (hf_view *view = NULL) "$1 = &view;"
%typemap(argout) hf_view **view_out {
    if (result == HF_OK && *$1)
        $result = hf_view_array(jenv, *$1);
    hf_view_close(*$1);
}

/* hf_client_survey() returns four byte[] for each finding: level, subject, server, text. */
%answer(hf_client_survey, jobjectArray, byte[][])
%typemap(in, numinputs = 0) (hf_finding *findings, size_t capacity, size_t *count_out)
    (hf_finding findings[HF_FINDINGS_MAX], size_t count = 0) {
    $1 = findings;
    $2 = HF_FINDINGS_MAX;
    $3 = &count;
}
%typemap(argout) (hf_finding *findings, size_t capacity, size_t *count_out) {
    if (result == HF_OK) {
        jclass kind = (*jenv)->FindClass(jenv, "[B");
        $result = kind ? (*jenv)->NewObjectArray(jenv, (jsize)(4 * *$3), kind, NULL) : NULL;
        for (size_t i = 0; $result && i < 4 * *$3; i++) {
            const hf_finding *at = &$1[i / 4];
            const char level[] = {(char)at->level, '\0'};
            const char *texts[] = {level, at->subject, at->server, at->text};
            jbyteArray text = hf_bytes(jenv, texts[i % 4], strlen(texts[i % 4]));
            if (!text)
                break; /* an OutOfMemoryError is pending */
            (*jenv)->SetObjectArrayElement(jenv, $result, (jsize)i, text);
            (*jenv)->DeleteLocalRef(jenv, text);
        }
    }
}

/* hf_hold_votes() returns both numbers. */
%typemap(jni) size_t hf_hold_votes "jintArray"
%typemap(jtype) size_t hf_hold_votes "int[]"
%typemap(jstype) size_t hf_hold_votes "int[]"
%typemap(javaout) size_t hf_hold_votes { return $jnicall; }
%typemap(out) size_t hf_hold_votes "$result = (*jenv)->NewIntArray(jenv, 2);"
%typemap(in, numinputs = 0) size_t *masters_out (size_t masters = 0) "$1 = &masters;"
%typemap(argout) size_t *masters_out {
    const jint both[] = {(jint)result, (jint)*$1};
    if ($result)
        (*jenv)->SetIntArrayRegion(jenv, $result, 0, 2, both);
}

/* hf_client_ping() returns no number. */
%typemap(in, numinputs = 0) size_t *servers_out "$1 = NULL;"

%typemap(in, numinputs = 0) (void *token, size_t capacity, size_t *token_len_out)
    (char token[HF_TOKEN_MAX], size_t length = 0) {
    $1 = token;
    $2 = sizeof token;
    $3 = &length;
}
%typemap(argout) (void *token, size_t capacity, size_t *token_len_out) {
    if (result == HF_OK)
        $result = hf_bytes(jenv, $1, *$3);
}

/* hf_client_kept() returns null if the owner left no hold, which is no exception. */
%answer(hf_client_kept, jbyteArray, byte[])
%typemap(out) hf_status hf_client_kept "$result = 0;"
%typemap(in, numinputs = 0) (void *name, size_t capacity, size_t *name_len_out)
    (char name[HF_NAME_MAX], size_t length = 0) {
    $1 = name;
    $2 = sizeof name;
    $3 = &length;
}
%typemap(argout) (void *name, size_t capacity, size_t *name_len_out) {
    if (result == HF_OK)
        $result = hf_bytes(jenv, $1, *$3);
}

/* --------------------------------------------------------------- Handles */

%define %handle(HANDLE)
%typemap(jni) HANDLE * "jlong"
%typemap(jtype) HANDLE * "long"
%typemap(jstype) HANDLE * "long"
%typemap(javain) HANDLE * "$javainput"
%typemap(javaout) HANDLE * "{ return $jnicall; }"
%typemap(in) HANDLE * "$1 = (HANDLE *)(intptr_t)$input;"
%typemap(out) HANDLE * "$result = (jlong)(intptr_t)$1;"
%typemap(in, numinputs = 0) HANDLE ** (HANDLE *handle = NULL) "$1 = &handle;"
%typemap(argout) HANDLE ** "$result = (jlong)(intptr_t)*$1;"
%enddef
%handle(hf_client)
%handle(hf_lock)
%handle(hf_hold)
%handle(hf_brake)
%handle(hf_locks)

/*
 * acquire() returns null if the lock is now held, or why it was not acquired in
 * time, which is no exception. The hold is put into hold[0]; without hold it is
 * left with the client.
 */
%answer(acquire, jbyteArray, byte[])
%typemap(out) hf_status acquire {
    $result = NULL;
    if ($1 == HF_EBUSY || $1 == HF_ETIMEOUT)
        $result = hf_bytes(jenv, hf_error_message(), strlen(hf_error_message()));
    else if ($1 != HF_OK)
        hf_raise(jenv, $1);
}
%typemap(jni) hf_hold **hold_out "jlongArray"
%typemap(jtype) hf_hold **hold_out "long[]"
%typemap(jstype) hf_hold **hold_out "long[]"
%typemap(javain) hf_hold **hold_out "$javainput"
%typemap(in) hf_hold **hold_out (hf_hold *hold = NULL) "$1 = $input ? &hold : NULL;"
%typemap(argout) hf_hold **hold_out {
    if (result == HF_OK && $1) {
        jlong hold = (jlong)(intptr_t)*$1;
        (*jenv)->SetLongArrayRegion(jenv, $input, 0, 1, &hold);
    }
}

/* Several locks are a long[], and their options an array of the same length. */
%{
/* Return the number of pointers in the array; at most HF_JOIN_MAX are copied. */
static size_t hf_pointers(JNIEnv *env, jlongArray array, void **to)
{
    jlong pointers[HF_JOIN_MAX];
    jsize count = (*env)->GetArrayLength(env, array);
    jsize fits = count < HF_JOIN_MAX ? count : HF_JOIN_MAX;
    (*env)->GetLongArrayRegion(env, array, 0, fits, pointers);
    for (jsize i = 0; i < fits; i++)
        to[i] = (void *)(intptr_t)pointers[i];
    return (size_t)count;
}
%}
%typemap(jni) (hf_lock *const *locks, size_t count) "jlongArray"
%typemap(jtype) (hf_lock *const *locks, size_t count) "long[]"
%typemap(jstype) (hf_lock *const *locks, size_t count) "long[]"
%typemap(javain) (hf_lock *const *locks, size_t count) "$javainput"
%typemap(in) (hf_lock *const *locks, size_t count) (void *given[HF_JOIN_MAX]) {
    $2 = hf_pointers(jenv, $input, given);
    $1 = (hf_lock **)given;
}
%typemap(argout) (hf_lock *const *locks, size_t count) "" /* not a result */
%typemap(jni) const hf_acquire_options *const *options "jlongArray"
%typemap(jtype) const hf_acquire_options *const *options "long[]"
%typemap(jstype) const hf_acquire_options *const *options "hf_acquire_options[]"
%typemap(javain) const hf_acquire_options *const *options "hf_acquire_options.pointers($javainput)"
%typemap(in) const hf_acquire_options *const *options (void *given[HF_JOIN_MAX]) {
    hf_pointers(jenv, $input, given);
    $1 = (hf_acquire_options **)given;
}
%typemap(javacode) struct hf_acquire_options %{
  static long[] pointers(hf_acquire_options[] all) {
    return java.util.Arrays.stream(all).mapToLong(hf_acquire_options::getCPtr).toArray();
  }
%}

%inline %{
/* Call hf_lock_acquire_as() with a brake, or with NULL. */
static hf_status acquire(hf_lock *lock, const void *owner, size_t owner_len, int64_t timeout_ms,
                         const hf_acquire_options *options, hf_hold **hold_out, hf_brake *brake)
{
    hf_brake_set(brake);
    hf_status status = hf_lock_acquire_as(lock, owner, owner_len, timeout_ms, options, hold_out);
    hf_brake_set(NULL);
    return status;
}
%}

/* ----------------------------------------------------------- Completions */

/* Has room for the name of an alarm behind it. */
%extend hf_completion {
    hf_completion(void)
    {
        hf_completion *made = calloc(1, sizeof *made + HF_NAME_MAX);
        if (made) {
            made->size = sizeof *made;
            made->name = (char *)(made + 1);
            made->name_capacity = HF_NAME_MAX;
        }
        return made;
    }
}
%immutable hf_completion::name;
%typemap(jni) char *name "jbyteArray"
%typemap(jtype) char *name "byte[]"
%typemap(jstype) char *name "byte[]"
%typemap(javaout) char *name { return $jnicall; }
%typemap(out) char *name "$result = hf_bytes(jenv, $1, arg1->name_len);"

/* A histogram's counts as long[]. */
%immutable hf_histogram::counts;
%typemap(jni) int64_t counts[ANY] "jlongArray"
%typemap(jtype) int64_t counts[ANY] "long[]"
%typemap(jstype) int64_t counts[ANY] "long[]"
%typemap(javaout) int64_t counts[ANY] { return $jnicall; }
%typemap(out) int64_t counts[ANY] {
    $result = (*jenv)->NewLongArray(jenv, $1_dim0);
    if ($result)
        (*jenv)->SetLongArrayRegion(jenv, $result, 0, $1_dim0, (const jlong *)$1);
}

/* On an open client, only a lack of memory or descriptors can fail. */
%typemap(out) int hf_client_fd {
    $result = $1;
    if ($1 < 0)
        hf_raise(jenv, HF_ENOMEM);
}
/* An operation that has already ended needs no cancelling. */
%typemap(out) hf_status hf_op_cancel "$result = $1;"

%{
#include <poll.h>
#include <stdbool.h>
#include <fcntl.h>
#include <unistd.h>
%}
%inline %{
/*
 * Make the bell on which the reader of the completions sleeps, besides the client's
 * descriptor; the reader ends when it is rung. It is a pipe, with both ends in one number.
 * Below 0: no descriptor is left.
 */
static int64_t bell_make(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return (int64_t)ends[1] << 32 | ends[0];
}

static bool bell_ring(int64_t bell) { return write((int)(bell >> 32), "", 1) == 1; }

static void bell_close(int64_t bell)
{
    close((int)(bell >> 32));
    close((int)(bell & INT32_MAX));
}

/* Return false if the bell was rung. */
static bool bell_sleep(int64_t bell, int fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = (int)(bell & INT32_MAX), .events = POLLIN}};
    poll(fds, 2, -1);
    return fds[1].revents == 0;
}
%}

/* --------------------------------------------------------------- Structs */

/* Made and closed by hand, each in one try statement. */
%typemap(javaclassmodifiers) SWIGTYPE "public final class"
%typemap(javainterfaces) SWIGTYPE "AutoCloseable"
%typemap(javafinalize) SWIGTYPE ""
%typemap(javadestruct, methodname = "close", methodmodifiers = "public") SWIGTYPE {
    $jnicall;
  }
%typemap(javabody) SWIGTYPE %{
  private final long swigCPtr;

  $javaclassname(long cPtr, boolean cMemoryOwn) {
    swigCPtr = cPtr;
  }

  static long getCPtr($javaclassname obj) {
    return obj == null ? 0 : obj.swigCPtr;
  }
%}

%include "holdfast.i"
