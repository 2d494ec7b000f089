/*
 * Holdfast: a distributed lock on Redis.
 *
 * This header is the manual of the C library. It declares everything public,
 * and it does not expose hiredis.
 *
 *     hf_client *client;
 *     hf_lock *lock;
 *     hf_hold *hold;
 *     if (hf_client_open("redis://localhost", NULL, &client) != HF_OK)
 *         errx(1, "%s", hf_error_message());
 *     if (hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock) != HF_OK)
 *         errx(1, "%s", hf_error_message());
 *     if (hf_lock_acquire(lock, 5000, &hold) == HF_OK) {
 *         write_with_fence(hf_hold_fence(hold));
 *         hf_hold_release(hold);
 *         hf_hold_close(hold);
 *     }
 *     hf_lock_close(lock);
 *     hf_client_close(client);
 *
 * Threads.  Every function may be called from any thread at any time, with
 * one exception: do not use a handle while another thread closes it, nor
 * afterwards. Closing a lock or a client does not invalidate the holds made
 * with it. (Only hf_client_next() may still read the last completions of a
 * closed client, as long as one of its locks or holds is open.) A thread that
 * is cancelled in a function, by pthread_cancel(), goes on to the function's
 * end: give an acquire a timeout, and release in a cleanup handler.
 *
 * Forks.  A client belongs to the process that opened it. In a forked child
 * its functions answer HF_EFORKED and touch nothing; open a new client there.
 *
 * Ownership.  A handle returned through an `_out` parameter belongs to the
 * caller, who gives it back with the matching `_close`. A string or descriptor
 * returned as a value belongs to the library. The library copies the strings
 * it is given.
 *
 * Time.  Durations are milliseconds. Deadlines are kept on CLOCK_BOOTTIME
 * (macOS: CLOCK_MONOTONIC), which goes on while the machine is suspended; the
 * server's clock decides everything else.
 *
 * Bytes.  Names and owners are bytes with an explicit length: NUL, spaces and
 * any encoding are allowed, and the library never changes them.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the whole project: every other file reads it from here. */
#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

#if defined(SWIG) || !defined(__GNUC__)
#define HF_API
#else
#define HF_API __attribute__((visibility("default")))
#endif

/* ---------------------------------------------------------------- Status */

/** The result of a call: HF_OK or one of HF_E*. A released number keeps its meaning. */
typedef int hf_status;

enum {
    HF_OK = 0,
    /** An argument is wrong. Nothing was done. */
    HF_EINVAL = 1,
    /** Out of memory, descriptors or threads. Nothing was done. */
    HF_ENOMEM = 2,
    /** Somebody else holds the lock, and the timeout was 0. */
    HF_EBUSY = 3,
    /** Others kept the lock for the whole timeout. Nothing is left behind. */
    HF_ETIMEOUT = 4,
    /** The caller does not hold the lock. Nothing was changed. */
    HF_ENOTHELD = 5,
    /** The hold was lost before: its lease ended, or its key was taken away. */
    HF_ELOST = 6,
    /**
     * A connection failed before the answer came and could not be restored in
     * time: the server may or may not have carried out the request.
     */
    HF_EUNKNOWN = 7,
    /** The wait was cancelled, or the client was closed during it. Nothing is held. */
    HF_ECANCELED = 8,
    /** A signal ended the wait (HF_ACQUIRE_INTERRUPTIBLE only). Nothing is held. */
    HF_EINTR = 9,
    /** The server cannot be reached. Nothing was done. */
    HF_ECONNECT = 10,
    /** The server refused the user or the password. */
    HF_EAUTH = 11,
    /** The server answered with an error. Nothing was done. */
    HF_ESERVER = 12,
    /** The server does not speak the Redis protocol, or its answer makes no sense. */
    HF_EPROTOCOL = 13,
    /** The server is too old or of the wrong kind, or the URL's scheme is not supported. */
    HF_EUNSUPPORTED = 14,
    /** The client is closed. */
    HF_ECLOSED = 15,
    /** The client belongs to the process that this one was forked from. */
    HF_EFORKED = 16,
    /**
     * Fewer replicas than the lock asks for had it in time; see hf_error_last().
     * The lock was released again. Nothing is held.
     */
    HF_EREPLICAS = 17,
    /** Only hf_once_begin(): it has been done, and the hold has the result. Nothing is held. */
    HF_EDONE = 18,
    /**
     * The owner holds the lock shared and asks for it exclusively: it would wait for
     * itself. The shared hold stays, and nothing else is held.
     */
    HF_EDEADLOCK = 19
};

/**
 * The short, constant name of a status: "HF_EBUSY".
 *
 * @return  A static string; "HF_E?" for an unknown number.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_status_name(hf_status status);

/**
 * Say what went wrong in this thread's last call that did not answer HF_OK,
 * and what to do about it. The message never contains a password or a hold id.
 *
 * @return  This thread's string, valid until its next call; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_error_message(void);

/** The longest text of an hf_error, in bytes, with its NUL. */
#define HF_MESSAGE_MAX 400

/** What went wrong: in a call of this thread, or in an operation that was started. */
typedef struct hf_error {
    /** Of HF_EREPLICAS: how many replicas had the lock; otherwise 0. */
    int64_t replicas;
    /** As hf_error_message(). */
    char message[HF_MESSAGE_MAX];
} hf_error;

/**
 * The error of the last call of this thread that did not answer HF_OK.
 *
 * @return  This thread's, valid until its next call; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const hf_error *hf_error_last(void);

/**
 * The version of the library in use, as "0.1.0".
 *
 * @return  A static string.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_version(void);

/* ---------------------------------------------------------------- Client */

/** A connection pool, and the holds acquired through it. */
typedef struct hf_client hf_client;
/** A name to lock, with its options. */
typedef struct hf_lock hf_lock;
/** One successful acquire. */
typedef struct hf_hold hf_hold;

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_client_options {
    /** sizeof(hf_client_options) of the caller's header. */
    uint32_t size;
    /** The most idle connections that the pool keeps; default 16. */
    uint32_t idle_connections;
    /** The time to reach the server and log in, milliseconds; default 2000. */
    int64_t connect_timeout_ms;
    /** The time for the answer to one command, milliseconds; default 2000. */
    int64_t command_timeout_ms;
    /**
     * TCP keep-alive: after so much silence the system asks whether the other
     * end is alive. Milliseconds, rounded up to seconds; default 15000; HF_NEVER
     * turns it off. Without an answer the connection ends after as long again.
     */
    int64_t keepalive_ms;
    /**
     * How many connections calls may use at once, to all nodes together; default:
     * 16 to each node; UINT32_MAX: as many as there are calls. From the third call at once to a
     * node on, calls share a connection, but not over TLS. If all are in use and none is shared,
     * a call waits for one within its own time limit: releases and renewals first, the
     * others in the order in which they came. The few connections of the client's own
     * thread are not counted.
     */
    uint32_t max_connections;
    /**
     * HF_ON: opening checks the address and connects to nothing; the first call
     * connects, within its own time limit. Default HF_OFF.
     */
    int32_t lazy;
    /**
     * The name of the client's connections in CLIENT LIST: 1 to 63 printable
     * ASCII characters without spaces, and a NUL; default "holdfast".
     */
    char client_name[64];
    /**
     * How long the server remembers the last fence of a lock that nobody holds,
     * milliseconds; default 86400000, a day; 1000 at least. It is one small key a
     * lock name. Forgotten, a fence still grows with the server's clock: only a clock
     * that steps back by more than the time since the last release could give a
     * smaller one.
     */
    int64_t fence_life_ms;
    /**
     * HF_ON: count each lock's name apart, unless hf_lock_options.count_name says otherwise.
     * Default HF_OFF: names are counted together.
     */
    int32_t count_names;
    /**
     * How many names may be counted apart, 1 to 10000; default 100. Further ones are counted
     * with all others: a name for each order makes no series for each order.
     */
    uint32_t names_max;
    /**
     * The alarm: as soon as so many acquires of one lock have timed out (HF_ETIMEOUT) within
     * alarm_window_ms, the completion queue tells it (HF_KIND_ALARM), and not again for that
     * lock before another alarm_window_ms is over. Default 0: never. The window is exact to an
     * eighth: timeouts within 9/8 of it may count together. A client watches 256 locks at once,
     * those with the most timeouts.
     */
    int32_t alarm_timeouts;
    int32_t reserved;
    /** Milliseconds. */
    int64_t alarm_window_ms;
} hf_client_options;

/**
 * Open a client: connect, log in, and check that the server is Redis 6.2 or
 * newer.
 *
 * @param url      NUL-terminated; percent-encode the characters special in a URL.
 *                 `redis://[[user]:password@]host[:port][/database]`
 *                 `unix://[[user]:password@]/path/to/socket`
 *                 `redis+sentinel://[[user]:password@]host[:port],.../service[/database]`
 *                 `redis+cluster://[[user]:password@]host[:port],...`
 *                 `valkey` stands for `redis` as well. `rediss` or `valkeys` means
 *                 TLS 1.2 or newer; the client checks the server's certificate and
 *                 name. Options follow a `?`:
 *                 `db`; `password_file` or `password_env`, from which each new
 *                 connection reads the password; for TLS `tls_ca` (a file or
 *                 folder; default: the system's), the client's `tls_cert` and
 *                 `tls_key`, and `tls_verify=off`. The members of
 *                 hf_client_options can stand there too: `connect_timeout`,
 *                 `command_timeout` and `keepalive` in seconds (`0.5`; a
 *                 keepalive of `0` turns it off), `max_connections`,
 *                 `client_name`, `lazy=on`, `fence_life` in seconds.
 * @param options  NULL for the defaults. A member that is set overrides the URL.
 * @param[out] client_out  The client; give it back with hf_client_close().
 * @retval HF_OK
 * @retval HF_EINVAL        The URL or an option is wrong.
 * @retval HF_EUNSUPPORTED  The server is too old, or is, or is not, a node of a cluster; or the
 *                          URL asks for TLS on a machine without OpenSSL.
 * @retval HF_ECONNECT      The server was not reached within connect_timeout_ms.
 * @retval HF_EAUTH         The user or the password is wrong.
 * @retval HF_ESERVER       The server refuses commands.
 * @retval HF_EPROTOCOL     This is not a Redis server.
 * @retval HF_ENOMEM
 *
 * Threads:  any.   Blocks: up to connect_timeout_ms; never if lazy.   Since: 0.1.
 */
HF_API hf_status hf_client_open(const char *url, const hf_client_options *options,
                                hf_client **client_out);

/**
 * Warn of a dangerous server setting, seen when the client was opened: a
 * maxmemory-policy that may evict a held lock. The text is meant for a log.
 *
 * @return  The client's string; empty if all is well or if the user lacks the
 *          permission for INFO; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_client_warning(const hf_client *client);

/**
 * Send a PING to every server that the client uses, in a Cluster to each master, and wait for the
 * answers: for a health check.
 *
 * @param[out] servers_out  How many were asked, one after the other; may be NULL.
 * @retval HF_OK  All of them answered.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_EINVAL, HF_ECLOSED, HF_EFORKED,
 *         HF_ENOMEM   One did not; the others behind it were not asked.
 *
 * Threads:  any.   Blocks: one round trip to each, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_client_ping(hf_client *client, size_t *servers_out);

/** How a finding of hf_client_survey() is meant. */
enum {
    /** As it should be. */
    HF_FINDING_GOOD = 1,
    /** Worth knowing; or it cannot be known, and the text says why. */
    HF_FINDING_NOTE = 2,
    /** Locks can be lost, or the client cannot work. The text says what to do. */
    HF_FINDING_WARNING = 3
};

/** The most findings about one server. */
#define HF_FINDINGS_MAX 16

/** One setting of a server; hf_client_survey() fills it in. */
typedef struct hf_finding {
    /** HF_FINDING_GOOD, HF_FINDING_NOTE or HF_FINDING_WARNING. */
    int32_t level;
    /** What it is about, NUL-terminated: `version`, `role`, `eviction`, `memory`, `persistence`,
     * `replicas`, `connections`, `timeout`, `keepalive`, `clock`, `permissions`. */
    char subject[20];
    /** The server, without user and password; NUL-terminated. */
    char server[128];
    /** One sentence for people, NUL-terminated. */
    char text[HF_MESSAGE_MAX];
} hf_finding;

/**
 * Look at the settings of a server that matter to locks: what docs/operations.md asks for. Writes
 * nothing. It uses INFO, CONFIG GET, TIME and the client's own scripts; what the user may not do
 * becomes a note.
 *
 * @param server    Which one, from 0: the only one, or the masters of a Cluster one by one.
 * @param name      A lock's name, to see whether the user has the permissions for its keys; in a
 *                  Cluster its own master tells. NULL: this is not looked at.
 * @param[out] findings  Receives them.
 * @param capacity  HF_FINDINGS_MAX at least.
 * @param[out] count_out  How many there are; 0: there is no such server.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_ECLOSED, HF_EFORKED,
 *         HF_ENOMEM
 *
 * Threads:  any.   Blocks: some round trips, connect_timeout_ms each at most.   Since: 0.1.
 */
HF_API hf_status hf_client_survey(hf_client *client, size_t server, const void *name,
                                  size_t name_len, hf_finding *findings, size_t capacity,
                                  size_t *count_out);

/** How many buckets an hf_histogram has, and up to how many microseconds its first one goes. */
#define HF_BUCKETS 27
#define HF_BUCKET_US 64

/**
 * How long things took. counts[0] is those of up to 64 us (HF_BUCKET_US), and each further bucket
 * goes up to twice as long as the one before: counts[i] has those above 32 << i us and up to
 * 64 << i us. The last one has all above 2147 s. The sum of the counts is how many there were.
 */
typedef struct hf_histogram {
    /** The sum of the times, microseconds. */
    int64_t sum_us;
    int64_t counts[HF_BUCKETS];
} hf_histogram;

/**
 * Counts, of a client or of one name: since the client was opened, unless they say "now". Each
 * acquire with good arguments is counted once, when it ends: as acquired, or as one of the ten
 * that follow `queued`.
 */
typedef struct hf_stats {
    /** sizeof(hf_stats) of the caller's header. */
    uint32_t size;
    uint32_t reserved;
    /** Now: holds that may still be on the server; acquires in a queue. */
    int64_t held, waiting;
    /** Acquires that got the lock; those of them that had a place in a queue before. */
    int64_t acquired, queued;
    /** hf_once_begin() gave the result of another: HF_EDONE. */
    int64_t done;
    /** The lock was not free: HF_EBUSY, HF_ETIMEOUT. */
    int64_t busy, timed_out;
    /** The wait was ended: by a cancel or the close of the client (HF_ECANCELED); by a signal. */
    int64_t canceled, interrupted;
    /** An owner with a shared hold asked for an exclusive one: HF_EDEADLOCK. */
    int64_t deadlocks;
    /** Too few replicas had it: HF_EREPLICAS. */
    int64_t unreplicated;
    /** The outcome is unknown (HF_EUNKNOWN); the server was not reached (HF_ECONNECT); any other
     * status. */
    int64_t unknown, unreachable, failed;
    /** Holds that a call released, as the server confirmed. */
    int64_t released;
    /** Holds that were lost before that, by their HF_CAUSE_*. */
    int64_t lost_expired, lost_unreachable, lost_gone;
    /** Renewals by the client's own thread; each claim of a grant is one too. */
    int64_t renewed;
    /** How often the alarm was raised: HF_KIND_ALARM. */
    int64_t alarms;
    /** How many names have counts of their own, see hf_client_name_stats(). 0 of a name. */
    int64_t names;
    /** Connections that were opened; those of them in place of one that broke, or that the
     * server had closed, or whose answer did not come in time. 0 of a name. */
    int64_t connections, reconnects;
    /** For how long acquires that got the lock had waited for it: from the call until they had
     * it. One request, if it was free. */
    hf_histogram wait;
    /** For how long holds lasted here: from their acquire, or their adoption, until a call ended
     * them (release, hand over) or they were lost. */
    hf_histogram hold;
} hf_stats;

/**
 * Read the client's counts, of all locks together. Sends nothing.
 *
 * @param[in,out] stats  Set stats->size first.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_stats(hf_client *client, hf_stats *stats);

/**
 * Read the counts of one name. A name has counts of its own from the first lock on that was
 * opened with count_name on, and the client keeps them until it is closed; there are up to
 * hf_client_options.names_max such names. All other locks are counted together, at index 0, so
 * that the sum over all indices is what hf_client_stats() tells.
 *
 * @param index      0: all locks whose names have no counts of their own; 1 to hf_stats.names.
 * @param[in,out] stats  Set stats->size first.
 * @param[out] name  Receives the name; HF_NAME_MAX bytes are enough.
 * @param capacity   The size of name.
 * @param[out] name_len_out  The name's length; 0 at index 0.
 * @retval HF_OK
 * @retval HF_EINVAL  There is no such index, or the buffer is too small.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_name_stats(hf_client *client, int64_t index, hf_stats *stats, void *name,
                                      size_t capacity, size_t *name_len_out);

/**
 * Close the client: end waiting calls with HF_ECANCELED, release its holds and
 * close its connections. Locks and holds made with it stay valid handles whose
 * calls answer HF_ECLOSED. NULL is allowed.
 *
 * What a server that cannot be reached is not told of ends with its lease: release
 * a hold without an end before, and see that it is released.
 *
 * In a forked child this leaves the parent's locks and connections alone.
 *
 * Threads:  any, once.   Blocks: at most one command_timeout_ms.   Since: 0.1.
 */
HF_API void hf_client_close(hf_client *client);

/** The longest default owner, in bytes, with its NUL. */
#define HF_DEFAULT_OWNER_MAX 448

/* ------------------------------------------------------------------ Lock */

/** As a timeout: wait without limit. */
#define HF_FOREVER INT64_C(-1)
/** As a lease or a remaining time: it never ends. */
#define HF_NEVER INT64_C(-1)

/** The shortest and the longest lease, in milliseconds: 10 ms, 10 years. */
#define HF_LEASE_MIN INT64_C(10)
#define HF_LEASE_MAX INT64_C(315360000000)
/** The default lease, in milliseconds. */
#define HF_LEASE_DEFAULT INT64_C(10000)
/** The longest name and the longest owner, in bytes. */
#define HF_NAME_MAX 4096
#define HF_OWNER_MAX 4096

/** An option that is off, on, or the library's choice. */
enum { HF_DEFAULT = 0, HF_ON = 1, HF_OFF = 2 };

/**
 * How a handle's holds share the lock: hf_lock_options.mode. Handles of both modes may stand
 * for one name, in one process or in many.
 *
 * One queue serves both modes in the order in which they came: a shared acquire does not
 * pass an exclusive one that waits, and an exclusive one waits for all shared holds before
 * it. Each shared hold has its own lease and fence; if its process dies, only that hold
 * ends.
 *
 * Nesting, if the handle is reentrant: an owner that holds the lock exclusively may acquire
 * it either way, and its shared holds have the same fence. An owner with a shared hold of
 * this client may acquire another one at once, past the queue and the permits.
 *
 * Downgrade: acquire it shared through a second handle while the owner holds it exclusively,
 * then release the exclusive hold, or hf_lock_release() the first handle. The shared hold
 * stays, and nobody comes in between.
 *
 * Upgrade: an owner with a shared hold of this client that asks for the lock exclusively is
 * answered HF_EDEADLOCK at once, because two that did so would wait for each other. Release
 * the shared hold first. Where that cannot be seen (the handle is not reentrant, or the
 * shared hold is another client's), such an acquire waits for its own shared hold, until its
 * timeout.
 */
enum { HF_EXCLUSIVE = 0, HF_SHARED = 1 };
/** The most permits that hf_lock_options.permits takes. */
#define HF_PERMITS_MAX INT64_C(9999999999)

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_lock_options {
    /** sizeof(hf_lock_options) of the caller's header. */
    uint32_t size;
    /** Renew holds until they are released; default: only if lease_ms is 0. */
    int32_t renew;
    /** Milliseconds, or HF_NEVER; default 10000. */
    int64_t lease_ms;
    /** May an owner that holds the lock acquire it again? Default HF_ON. */
    int32_t reentrant;
    /**
     * HF_ON: when an acquire meets a foreign lock without a TTL, which would
     * stand for ever, it sets this lock's lease as the TTL. Default HF_OFF.
     */
    int32_t heal;
    /**
     * Stop renewing a hold so many milliseconds after its grant, so that a
     * stuck thread does not keep the lock for ever; default: no limit. Nested
     * holds count from the outermost one. Not with HF_NEVER.
     */
    int64_t max_hold_ms;
    /**
     * How many replicas must have an acquire before it answers (WAIT). If they do
     * not within replica_timeout_ms, the lock is released again and the answer is
     * HF_EREPLICAS. A failover then loses fewer locks, but it can still lose one:
     * only the fence protects from that. Default 0.
     */
    int32_t replicas;
    /**
     * HF_SHARED: holds of this handle stand beside other shared ones, and exclude
     * exclusive ones. Default HF_EXCLUSIVE.
     */
    int32_t mode;
    /** Milliseconds, shorter than the lease; default 1000, or half of a short lease. */
    int64_t replica_timeout_ms;
    /**
     * Of HF_SHARED: it is acquired while fewer than so many shared holds exist, so that
     * equal handles make a semaphore; 1 to HF_PERMITS_MAX. Default 0: however many there
     * are, as readers do. It has no effect on HF_EXCLUSIVE.
     *
     * The number belongs to this handle and is stored nowhere: handles that differ are
     * each held to their own. An acquire that waits with a small number keeps those behind
     * it waiting. A nested hold needs no permit, but counts: if one thread is to take
     * several permits, set reentrant to HF_OFF.
     */
    int64_t permits;
    /** Count this lock's name apart, see hf_client_name_stats(); default: as the client's
     * count_names says. */
    int32_t count_name;
    /** As the client's, for acquires through this handle; 0: as the client's say. Below 0: never.
     */
    int32_t alarm_timeouts;
    int64_t alarm_window_ms;
} hf_lock_options;

/**
 * Make a handle for the lock called `name`. Sends nothing.
 *
 * @param name       1 to HF_NAME_MAX bytes. A name must not end in `:hf`,
 *                   digits, `:` and one letter, like the lock's own keys, and
 *                   must not have a } without a {tag} before it.
 * @param owner      The owner that acquires through this handle. NULL: the
 *                   calling thread, or, if the lock is not reentrant, a new
 *                   owner for every acquire. Equal owners are one owner
 *                   everywhere: "worker" on ten hosts excludes nothing.
 * @param owner_len  1 to HF_OWNER_MAX bytes; 0 with NULL.
 * @param options    NULL for the defaults.
 * @param[out] lock_out  The lock; give it back with hf_lock_close().
 * @retval HF_OK
 * @retval HF_EINVAL  The name, the owner or an option is wrong.
 * @retval HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_open(hf_client *client, const void *name, size_t name_len,
                              const void *owner, size_t owner_len, const hf_lock_options *options,
                              hf_lock **lock_out);

/**
 * Give the handle back. Its holds stay held. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_lock_close(hf_lock *lock);

/**
 * Acquire the lock, and wait up to timeout_ms while others hold it.
 *
 * The same owner may acquire again (if the lock is reentrant) and must then
 * release as often. A foreign lock under the same name, for example another
 * library's plain string, excludes this one like one of ours. HF_SHARED and
 * HF_EXCLUSIVE say how shared and exclusive holds stand beside each other.
 *
 * @param timeout_ms  Milliseconds; 0 tries once, HF_FOREVER waits without limit.
 * @param[out] hold_out  The hold; release it with hf_hold_release() and give
 *                    the handle back with hf_hold_close(). NULL leaves the
 *                    hold with the client, for hf_lock_release().
 * @retval HF_OK         Held. The lease counts from before the request was sent.
 * @retval HF_EBUSY      timeout_ms was 0 and others hold it; or the lease ended
 *                       before the answer arrived.
 * @retval HF_ETIMEOUT   Others kept it. Nothing is left on the server.
 * @retval HF_EINVAL     timeout_ms is below -1. Not held.
 * @retval HF_EDEADLOCK  The owner holds the lock shared, and this handle is HF_EXCLUSIVE.
 * @retval HF_EUNKNOWN   The answer was lost: the lock may be held without any
 *                       caller knowing it, until the lease ends. Do not enter.
 * @retval HF_ECANCELED  The client was closed during the wait.
 * @retval HF_EREPLICAS  Too few replicas had it in time. It was released again.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_ECLOSED,
 *         HF_EFORKED, HF_ENOMEM   Not held.
 *
 * Threads:  any.   Blocks: up to timeout_ms plus one connect_timeout_ms, and
 *           replica_timeout_ms if replicas are asked for.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire(hf_lock *lock, int64_t timeout_ms, hf_hold **hold_out);

/** For hf_acquire_options.flags: leave the hold with the client, for hf_lock_release(). */
#define HF_ACQUIRE_KEEP 1u
/** For hf_acquire_options.flags: a signal ends the wait with HF_EINTR. */
#define HF_ACQUIRE_INTERRUPTIBLE 2u
/**
 * For hf_acquire_options.flags, for bindings whose acquire is a try and then another call:
 * hf_stats does not count it if it is HF_EBUSY, nor, with an hf_brake, if it fails.
 * hf_lock_ended() counts it if there is no other call. Not of hf_lock_acquire_start().
 */
#define HF_ACQUIRE_UNCOUNTED 4u
/**
 * For hf_acquire_options.flags: answer HF_OK only with two thirds of the lease left, or more, as
 * every renewal leaves them. What was waited for lasts 3 s at first, and has its lease about a
 * second after the acquire has answered; with this flag the acquire gets it first, by one more
 * request. For callers that stop some time before the end of the lease: leaders. If that request
 * fails the lock is released again, and the answer is the request's.
 */
#define HF_ACQUIRE_WHOLE 8u

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_acquire_options {
    /** sizeof(hf_acquire_options) of the caller's header. */
    uint32_t size;
    /** HF_ACQUIRE_KEEP, _INTERRUPTIBLE, _UNCOUNTED, _WHOLE. */
    uint32_t flags;
    /** Milliseconds, or HF_NEVER; default: the lock's lease, and then its renew counts too. */
    int64_t lease_ms;
    /** Renew until released; default: only if neither this call nor the lock sets a lease. */
    int32_t renew;
    int32_t reserved;
} hf_acquire_options;

/**
 * hf_lock_acquire() with an owner and options for this one call.
 *
 * HF_ACQUIRE_KEEP and hold_out may be combined: the hold is then on the owner's stack,
 * where hf_lock_release() finds it, and the caller has a handle of it too.
 *
 * @param owner    NULL for the lock's owner, see hf_lock_open().
 * @param options  NULL for the defaults.
 * @retval HF_EINTR  A signal ended the wait. Nothing is held.
 * @retval HF_EINVAL, and every answer of hf_lock_acquire().
 *
 * Threads:  any.   Blocks: as hf_lock_acquire(), and one connect_timeout_ms more with
 *           HF_ACQUIRE_WHOLE.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire_as(hf_lock *lock, const void *owner, size_t owner_len,
                                    int64_t timeout_ms, const hf_acquire_options *options,
                                    hf_hold **hold_out);

/** So many locks, or holds, at once. */
#define HF_JOIN_MAX 100

/**
 * Acquire several locks: all of them, or none.
 *
 * They are taken one after the other, in the order of the bytes of their names. So callers that
 * give them in different orders do not wait for each other for ever; a caller that holds another
 * of them already may. One deadline is for all. What was taken is released if the rest cannot be
 * had, in the background if the server does not answer. If the lease of one ends while the next
 * are waited for, all is begun again, within the deadline, after a pause that grows to a second:
 * a lease must be longer than the ways to all of them.
 *
 * The holds are joined, as by hf_hold_join(): losing one is losing all. Each has its own fence.
 * Release each with hf_hold_release(), in any order.
 *
 * @param locks    Locks of one client, no two of the same name.
 * @param count    1 to HF_JOIN_MAX.
 * @param timeout_ms  Milliseconds; 0 tries each once, HF_FOREVER waits without limit.
 * @param options  For each; NULL for the defaults.
 * @param[out] holds_out  Receives `count` holds, in the order of `locks`; or, if this does not
 *                 answer HF_OK, as many NULLs.
 * @retval HF_OK      All are held.
 * @retval HF_EINVAL  A name is there twice, the locks are of several clients, or as
 *                    hf_lock_acquire_as(). Nothing is held.
 * @retval others     As hf_lock_acquire_as(), for the first lock that could not be had, which the
 *                    message names. Nothing is held, but for HF_EUNKNOWN as there. HF_ECONNECT
 *                    also if the lease of one ended in an outage, and the time is up.
 *
 * Threads:  any.   Blocks: up to timeout_ms plus one connect_timeout_ms for the wait, and as long
 *           for each release of what was taken.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire_all(hf_lock *const *locks, size_t count, int64_t timeout_ms,
                                     const hf_acquire_options *options, hf_hold **holds_out);

/**
 * Release the newest hold that the caller left with the client. The same owner
 * acquired it with hold_out NULL or with HF_ACQUIRE_KEEP, through any handle of this
 * client with the same name and mode: an owner that holds the lock both ways says by
 * the handle which hold ends. If the lock is not reentrant and has no owner: release
 * the newest hold that any thread acquired through this very handle.
 *
 * @retval HF_OK        Released.
 * @retval HF_ENOTHELD  The caller has no such hold. Nothing was changed.
 * @retval others       As hf_hold_release(). The hold is off the stack.
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_release(hf_lock *lock);

/**
 * hf_lock_release() for an owner given as in hf_lock_acquire_as().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_release_as(hf_lock *lock, const void *owner, size_t owner_len);

/** A lock as the server sees it; hf_lock_inspect() fills it in. */
typedef struct hf_lock_info {
    /** sizeof(hf_lock_info) of the caller's header. */
    uint32_t size;
    /** 1 if somebody holds it, through this library or another. */
    int32_t held;
    /** 1 if another library's lock holds it. */
    int32_t foreign;
    /** 1 if it is held shared, 0 if exclusively, free or foreign. */
    int32_t shared;
    /** How many valid holds there are, nested ones too; 0 if free or foreign. */
    int64_t count;
    /** The holder's fence, or that of the shared hold that ends first; 0 if free or foreign. */
    int64_t fence;
    /** The time until its last hold ends, milliseconds; HF_NEVER; 0 if free. */
    int64_t remaining_ms;
    /** The number of acquires in the queue, shared and exclusive. */
    int64_t waiters;
    /** For how long its owner has held it, milliseconds by the server's clock; 0 if free or
     * foreign. The fence is the microsecond at which that began. If it is shared: of the
     * hold that ends first, not of the oldest. */
    int64_t held_ms;
    /** For how long its last result stays, milliseconds; 0: it has none. */
    int64_t result_ms;
    /**
     * 1 if its slot of a cluster is being moved, so that only the lock's own key could be
     * looked at: the waiters and the result are not known, and of several holds not
     * the ends.
     */
    int32_t moving;
    int32_t reserved;
} hf_lock_info;

/** One holder of a lock; hf_view_holder() fills it in. */
typedef struct hf_lock_holder {
    /** sizeof(hf_lock_holder) of the caller's header. */
    uint32_t size;
    /** HF_EXCLUSIVE or HF_SHARED. */
    int32_t mode;
    /** Its fence, for hf_lock_break(); and its holds with that fence: those that nest too. */
    int64_t fence, count;
    /** For how long it has held the lock, milliseconds by the server's clock. */
    int64_t held_ms;
    /** The time until the last of these holds ends, milliseconds; HF_NEVER. */
    int64_t remaining_ms;
    /** The owner's bytes, which belong to the view. */
    const void *owner;
    size_t owner_len;
} hf_lock_holder;

/** One acquire that waits in a lock's queue; hf_view_waiter() fills it in. */
typedef struct hf_lock_waiter {
    /** sizeof(hf_lock_waiter) of the caller's header. */
    uint32_t size;
    /** HF_EXCLUSIVE or HF_SHARED. */
    int32_t mode;
    /** hf_lock_options.permits of a shared one. */
    int64_t permits;
    /** For how long it has waited, milliseconds by the server's clock. */
    int64_t waited_ms;
    /** Its timeout, counted from when it queued; HF_FOREVER. */
    int64_t timeout_ms;
    /** The owner's bytes, which belong to the view. */
    const void *owner;
    size_t owner_len;
} hf_lock_waiter;

/**
 * The holders and waiters that a look at a lock found. It does not change, and does not need
 * the lock or the client any more.
 */
typedef struct hf_view hf_view;
/** A view has so many holds and so many waiters at most. */
#define HF_VIEW_MAX 100

/**
 * Look at the lock, whoever holds it. Changes nothing. The answer is out of
 * date when you read it, so do not enter because of it.
 *
 * @param first  How many holds, and how many waiters, the view skips: 0, or HF_VIEW_MAX for
 *               the next ones, and so on up to info->count and info->waiters. A hold that
 *               nests in one of another view is listed by itself.
 * @param[in,out] info   Set info->size first. NULL if only the view is wanted.
 * @param[out] view_out  The holders, that which ends first before the others, and the waiters in
 *                       the order in which they will be served; give it back with
 *                       hf_view_close(). NULL if only the info is wanted.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL,
 *         HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_inspect(hf_lock *lock, int64_t first, hf_lock_info *info,
                                 hf_view **view_out);

/**
 * The name of the lock that was looked at.
 *
 * @param[out] name_len_out  Its length.
 * @return  The view's bytes; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const void *hf_view_name(const hf_view *view, size_t *name_len_out);

/**
 * How many holders the view has; how many waiters.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API size_t hf_view_holders(const hf_view *view);
HF_API size_t hf_view_waiters(const hf_view *view);

/**
 * Read one holder, or one waiter, of the view.
 *
 * @param which  0 up to what hf_view_holders() or hf_view_waiters() answers, without that.
 * @param[in,out] holder  Set holder->size first.
 * @retval HF_OK
 * @retval HF_EINVAL  A pointer is NULL, the size is not set, or there is no such holder.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_view_holder(const hf_view *view, size_t which, hf_lock_holder *holder);
HF_API hf_status hf_view_waiter(const hf_view *view, size_t which, hf_lock_waiter *waiter);

/**
 * Give the view back, and the owners that were read from it. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_view_close(hf_view *view);

/** Who a default owner is; hf_owner_parse() fills it in. */
typedef struct hf_owner_parts {
    /** sizeof(hf_owner_parts) of the caller's header. */
    uint32_t size;
    /** 't' for a thread, 'a' for a task, 'o' for one operation. */
    int32_t kind;
    /** The process on its host. */
    int64_t pid;
    /** The number of the thread, task or operation in that process, from 1: not the system's. */
    int64_t serial;
    /** The 32 hex digits that tell this client from all others, and a NUL. */
    char client_id[40];
    /** hf_client_options.client_name. */
    char client_name[64];
    /** The host's name; NUL-terminated like the others. */
    char host[256];
} hf_owner_parts;

/**
 * Read the host, the process and more from a default owner: one of an acquire that was given no
 * owner. For operators: any program may have chosen an owner of that form.
 *
 * @param owner  As in hf_lock_holder and hf_lock_waiter.
 * @param[in,out] parts  Set parts->size first.
 * @return  1; or 0 if it is another owner, which its program chose: parts is as before. Also 0
 *          if a pointer is NULL or the size is not set.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_owner_parse(const void *owner, size_t owner_len, hf_owner_parts *parts);

/** For hf_lock_break(): also delete a foreign lock. */
#define HF_BREAK_FOREIGN 1u

/**
 * Take the lock away from one holder, and grant it to the next waiter that it now fits. The
 * holder finds out at its next renewal or check; until then only the fence
 * protects. All that nests in the holder's hold goes with it. Other shared holds
 * stay. For operators.
 *
 * @param fence  The holder's fence, from hf_lock_inspect(): if somebody else
 *               holds the lock by now, nothing happens. 0 for a foreign lock.
 * @param flags  HF_BREAK_FOREIGN or 0.
 * @retval HF_OK        The hold was broken, or the lock was free.
 * @retval HF_ENOTHELD  No holder has that fence, or the lock is foreign. Nothing was changed.
 * @retval others       As hf_lock_inspect(), and HF_EUNKNOWN.
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_break(hf_lock *lock, int64_t fence, uint32_t flags);

/* ------------------------------------------------------------- All locks */

/** A walk over the locks of a server or a cluster. Threads that share it wait for each other. */
typedef struct hf_locks hf_locks;

/** The default of hf_locks_options.rate. */
#define HF_RATE_DEFAULT INT64_C(500)

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_locks_options {
    /** sizeof(hf_locks_options) of the caller's header. */
    uint32_t size;
    uint32_t reserved;
    /**
     * The most looks a second, to all nodes together, each of which takes a server some 30
     * microseconds: at one lock; to search 100 keys for locks counts as six. Default
     * HF_RATE_DEFAULT, a fiftieth of one server's time; HF_NEVER: without a limit.
     */
    int64_t rate;
} hf_locks_options;

/**
 * Begin to list the locks whose names match the pattern. Sends nothing yet.
 *
 * It walks over all keys of the server, or of each master of the cluster, by SCAN, and so
 * needs the permission for SCAN and, in a cluster, is faster with that for CLUSTER NODES. The
 * server answers other clients in between; hf_locks_options.rate bounds how much of its time
 * that takes.
 *
 * It lists each lock once that is held or waited for from the beginning to the end of the
 * walk, also if its slot moves to another node meanwhile; others may be missing, and any
 * may have changed when it is read. Of other libraries' locks it lists those for which
 * one of ours waits, and Redisson's; hf_lock_inspect() tells of the others. It lists no other
 * key of any application.
 *
 * @param pattern  As in Redis's KEYS: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a special
 *                 character. 1 to HF_NAME_MAX bytes; NULL for all.
 * @param options  NULL for the defaults.
 * @param[out] locks_out  The walk; give it back with hf_locks_close().
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_locks_open(hf_client *client, const void *pattern, size_t pattern_len,
                               const hf_locks_options *options, hf_locks **locks_out);

/**
 * Find the next lock.
 *
 * If a node does not answer or refuses a request, this says so once: what is left of that
 * node is not listed, and the next call goes on with the others.
 *
 * @param[in,out] info   Set info->size first. May be NULL.
 * @param[out] view_out  Its name, holders and waiters, as from hf_lock_inspect(); give it
 *                       back with hf_view_close(). NULL at the end.
 * @retval HF_OK         A lock, or the end.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_EUNSUPPORTED
 *                       Not all locks of a node are listed; the message says which, and why.
 * @retval HF_EINTR      hf_client_set_interrupt()'s check ended it. The next call goes on.
 * @retval HF_ECANCELED  The client was closed during it.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: until it has found one, as the rate allows; one
 *           connect_timeout_ms for a node that does not answer.   Since: 0.1.
 */
HF_API hf_status hf_locks_next(hf_locks *locks, hf_lock_info *info, hf_view **view_out);

/** How far a walk is; hf_locks_progress() fills it in. */
typedef struct hf_progress {
    /** sizeof(hf_progress) of the caller's header. */
    uint32_t size;
    uint32_t reserved;
    /** How many locks hf_locks_next() has told. */
    int64_t locks;
    /** About how many keys it has seen; and how many there are, of any kind; -1: not known. */
    int64_t keys_seen, keys;
    /** How many keys it left out because the user may not use them. */
    int64_t refused;
    /** What it costs: how many commands it has sent to the nodes, in how many round trips; and
     * the time from each of these to its last answer, microseconds together: the network's and
     * the servers'. */
    int64_t commands, round_trips, answer_us;
} hf_progress;

/**
 * Say how far the walk is. Sends nothing. If a slot moved during the walk, all nodes are walked
 * once more, and `keys` grows then.
 *
 * @param[in,out] progress  Set progress->size first.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_EFORKED
 *
 * Threads:  any.   Blocks: while another thread is in hf_locks_next().   Since: 0.1.
 */
HF_API hf_status hf_locks_progress(hf_locks *locks, hf_progress *progress);

/**
 * End the walk. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_locks_close(hf_locks *locks);

/* ------------------------------------------------------------------ Hold */

/** States of a hold. */
enum { HF_STATE_HELD = 1, HF_STATE_LOST = 2, HF_STATE_RELEASED = 3 };

/** Why a hold was lost. */
enum {
    HF_CAUSE_NONE = 0,
    /** Its lease ended, and its renewal was off or had stopped. */
    HF_CAUSE_EXPIRED = 1,
    /** The client could not renew it before its lease ended. */
    HF_CAUSE_UNREACHABLE = 2,
    /** The server no longer has it: it was broken, deleted, evicted or flushed. */
    HF_CAUSE_GONE = 3
};

/**
 * Release the hold. With the owner's last hold, the lock becomes free or goes
 * to the next waiter. Locally the hold ends before the request is sent. The
 * handle stays valid until hf_hold_close().
 *
 * @retval HF_OK        Released.
 * @retval HF_ENOTHELD  It was released before. Nothing was changed.
 * @retval HF_ELOST     It was lost before; somebody else may have held the lock
 *                      since. Anything left of it was released.
 * @retval HF_EUNKNOWN  The answer was lost; the hold ends with its lease at the latest.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL   Not released. It is
 *                      not renewed any more, and ends with its lease, or earlier
 *                      if the keeper, which goes on trying, gets through.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_release(hf_hold *hold);

/**
 * Make the hold last its whole lease again, counted from now. Never shortens it.
 *
 * @retval HF_OK        It lasts at least one lease, counted from before this call.
 * @retval HF_ENOTHELD  It was released before.
 * @retval HF_ELOST     It is lost: its lease ended, or its key was taken away.
 * @retval HF_EUNKNOWN  The answer was lost; it lasts at least as long as before.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL   Not renewed; it
 *                      lasts as long as before.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_renew(hf_hold *hold);

/** For hf_hold_extend(): last exactly so long from now, which may be shorter. */
#define HF_EXTEND_REPLACE 1u

/**
 * Make the hold last duration_ms longer. With HF_EXTEND_REPLACE it lasts exactly
 * duration_ms from now instead, which may be shorter, and later renewals use
 * that as its lease.
 *
 * @param duration_ms  HF_LEASE_MIN to HF_LEASE_MAX; with HF_EXTEND_REPLACE also HF_NEVER.
 * @retval HF_EINVAL, and every answer of hf_hold_renew().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_extend(hf_hold *hold, int64_t duration_ms, uint32_t flags);

/**
 * Ask the server whether the hold still stands. Changes nothing there. If somebody
 * else has given the lock's key an earlier end, the hold counts until then, and its
 * renewal, if that is on, comes at once.
 *
 * @retval  As hf_hold_renew().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_check(hf_hold *hold);

/**
 * The hold's fencing token: greater than that of every earlier hold of this
 * name, equal in nested holds of one owner, below 2^53. Give it to the resource
 * and let the resource refuse smaller ones: this protects when all else fails.
 *
 * Shared holds that stand beside each other have different fences. So let the
 * resource refuse a shared hold's fence only if an exclusive hold had a greater one.
 *
 * @return  Positive; 0 if hold is NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_hold_fence(const hf_hold *hold);

/**
 * How long the hold is certain to last, after a margin for clock drift.
 *
 * @return  Milliseconds; HF_NEVER; 0 if it is no longer held.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_hold_remaining_ms(const hf_hold *hold);

/**
 * HF_STATE_HELD, HF_STATE_LOST or HF_STATE_RELEASED, as far as this process knows.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_hold_state(const hf_hold *hold);

/**
 * Why it was lost: HF_CAUSE_*; HF_CAUSE_NONE if it was not.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_hold_cause(const hf_hold *hold);

/**
 * The hold's number, which its completions carry. Its client never reuses it.
 *
 * @return  Positive; 0 if hold is NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_hold_number(const hf_hold *hold);

/**
 * Turn the hold into a token with which another process can go on holding the
 * lock: its owner, its hold id, its mode and its fence. Here the hold ends without being
 * released. Nothing renews it, and hf_lock_adopt() must come before its lease
 * ends. Anybody with the token can release the lock: keep it secret.
 *
 * @param[out] token      Receives the token's bytes.
 * @param capacity        The size of token; HF_TOKEN_MAX is enough.
 * @param[out] token_len_out  The token's length.
 * @retval HF_OK
 * @retval HF_EINVAL    The buffer is too small. The hold is as before.
 * @retval HF_EUNKNOWN  An hf_hold_extend() with HF_EXTEND_REPLACE is under way, or its answer
 *                      was lost: it may still cut the lease short. The hold is as
 *                      before.
 * @retval HF_ENOTHELD, HF_ELOST   It is not held.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_hand_over(hf_hold *hold, void *token, size_t capacity,
                                   size_t *token_len_out);

/**
 * Leave the lock held for so long, whatever becomes of this client: nobody gets it, the client
 * may be closed or die, and then it ends by itself. Here the hold ends without being released:
 * nothing renews it, and no one can release it. For work that must not be done again too soon.
 *
 * An owner that was named (hf_lock_open()) and acquires again may nest in what is kept, unless
 * its lock is not reentrant. A renewal that this crosses can make it last for one lease, if that
 * is longer. Keep the outermost of nested holds, and last: the others stay held.
 *
 * @param duration_ms   From now on, up to HF_LEASE_MAX; below HF_LEASE_MIN it counts as that.
 *                      0 releases the hold: hf_hold_release().
 * @retval HF_OK        The lock is held for so long. The hold is over.
 * @retval HF_EINVAL    The duration is out of bounds. The hold is as before.
 * @retval HF_ENOTHELD  It was released before. Nothing was changed.
 * @retval HF_ELOST     It is lost: its lease ended, or its key was taken away. Nothing is kept.
 * @retval HF_EUNKNOWN  The answer was lost, or another replacement of its lease is under way.
 *                      The hold is still held and renewed, with this duration as its
 *                      lease. Call this again, with the same duration or less, or release it.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL   Not kept; as after HF_EUNKNOWN.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: two round trips, connect_timeout_ms at most for each.   Since: 0.1.
 */
HF_API hf_status hf_hold_keep(hf_hold *hold, int64_t duration_ms);

/**
 * Make hf_hold_release() and hf_hold_release_start() leave the lock held until duration_ms after
 * this hold was acquired, if that is still to come: they then do and answer as hf_hold_keep(), with
 * up to three tries if an answer is lost. For work that must not be done again too soon. Sends
 * nothing.
 *
 * @param duration_ms   0 to HF_LEASE_MAX. 0: a release releases, as by default.
 * @retval HF_OK
 * @retval HF_EINVAL    The duration is out of bounds, or the handle is NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_keep_at_least(hf_hold *hold, int64_t duration_ms);

/** The longest token, in bytes. */
#define HF_TOKEN_MAX (HF_OWNER_MAX + 64)

/**
 * Take over a hold that another process handed over. This renews it first, to
 * the lock's lease, because a deadline does not travel between hosts.
 *
 * @param lock      A lock of the same name and mode; its lease and renew apply from now on.
 * @param[out] hold_out  The hold, as from hf_lock_acquire_as().
 * @retval HF_OK
 * @retval HF_EINVAL    The bytes are not a token, or of a hold of the other mode: HF_SHARED or not.
 * @retval HF_ELOST     Its lease ended before, or it was released.
 * @retval HF_EUNKNOWN, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL,
 *         HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not adopted; it may be tried again.
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_adopt(hf_lock *lock, const void *token, size_t token_len,
                               hf_hold **hold_out);

/**
 * Give the handle back. This does not release: a hold still held lasts until
 * its lease ends, and is not renewed any more unless it was left with the
 * client (HF_ACQUIRE_KEEP). NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_hold_close(hf_hold *hold);

/* ----------------------------------------------------------- Completions */

/*
 * Without blocking: start an operation, and read its result from the client's
 * completion queue. The library never calls your code from another thread;
 * watch hf_client_fd() in an event loop or in your own thread.
 */

/** The kinds of completion. */
enum {
    /** The queue is empty. */
    HF_KIND_NONE = 0,
    /**
     * An hf_lock_acquire_start() or hf_once_begin_start() ended; if HF_OK or HF_EDONE,
     * `hold` is the caller's.
     */
    HF_KIND_ACQUIRE = 1,
    /** An hf_hold_release_start(), hf_hold_keep_start() or hf_once_finish_start() ended. */
    HF_KIND_RELEASE = 2,
    /** A hold was lost: `hold_number` and `cause` say which and why. */
    HF_KIND_LOSS = 3,
    /** An hf_hold_renew_start(), _extend_start() or _check_start() ended. */
    HF_KIND_RENEWAL = 4,
    /**
     * Many acquires of one lock have timed out: see hf_client_options.alarm_timeouts. `timeouts`
     * says how many, the caller's buffer has the lock's name, and the message says who held it
     * at last.
     */
    HF_KIND_ALARM = 5
};

/** One completion; set size before hf_client_next(). */
typedef struct hf_completion {
    /** sizeof(hf_completion) of the caller's header. */
    uint32_t size;
    /** HF_KIND_*. */
    int32_t kind;
    /** What the blocking function would have answered; HF_ELOST for a loss, HF_ETIMEOUT for an
     * alarm. */
    int32_t status;
    /** HF_CAUSE_* for a loss. */
    int32_t cause;
    /** The number that the caller gave the operation; 0 for a loss or an alarm. */
    int64_t op;
    /** The number of the hold acquired, released or lost; 0 without one. */
    int64_t hold_number;
    /** HF_KIND_ACQUIRE with HF_OK or HF_EDONE: the hold; give it back with hf_hold_close(). */
    hf_hold *hold;
    /** HF_KIND_ALARM: how many acquires have timed out within the window. */
    int64_t timeouts;
    /**
     * HF_KIND_ALARM: the lock's name is written here. The caller sets name to a buffer, and
     * name_capacity to its size; HF_NAME_MAX bytes are enough, and what does not fit is cut off.
     * NULL: it is not wanted.
     */
    char *name;
    size_t name_capacity;
    /** Its whole length; 0 for other kinds. */
    size_t name_len;
    /** If status is not HF_OK: what went wrong, as after the blocking function. */
    hf_error error;
} hf_completion;

/**
 * Get the descriptor that is readable while the queue has completions for
 * hf_client_next(). From the first call on, the queue reports losses and alarms too.
 *
 * @return  The client's descriptor: poll it, do not read or close it. -1 on
 *          error: HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_client_fd(hf_client *client);

/**
 * Take one completion off the queue.
 *
 * @param[in,out] completion  Set completion->size first, and name or NULL. kind is
 *                            HF_KIND_NONE if the queue is empty.
 * @retval HF_OK
 * @retval HF_ECLOSED  The client is closed, and the queue is empty.
 * @retval HF_EINVAL, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_next(hf_client *client, hf_completion *completion);

/**
 * Start hf_lock_acquire_as(). An HF_KIND_ACQUIRE completion follows if, and only
 * if, this answers HF_OK. If neither this call nor the lock names an owner, the
 * operation is its own owner: two acquires that one thread started exclude
 * each other.
 *
 * @param op       The caller's number for it, above 0; no other operation under
 *                 way on this client may have it (HF_EINVAL). It is free again
 *                 when the completion is on the queue.
 * @param options  NULL for the defaults. HF_ACQUIRE_KEEP leaves the hold with the client too.
 * @retval HF_OK      Started.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire_start(hf_lock *lock, const void *owner, size_t owner_len,
                                       int64_t timeout_ms, const hf_acquire_options *options,
                                       int64_t op);

/**
 * Start hf_hold_release(). Locally the hold ends at once. An HF_KIND_RELEASE
 * completion follows if, and only if, this answers HF_OK.
 *
 * @param op  The caller's number for it, above 0; no other operation under way on
 *            this client may have it.
 * @retval HF_OK        Started.
 * @retval HF_ENOTHELD  It was released before.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_release_start(hf_hold *hold, int64_t op);

/**
 * Start hf_hold_renew(). An HF_KIND_RENEWAL completion follows if, and only if, this
 * answers HF_OK.
 *
 * @param op  The caller's number for it, above 0; no other operation under way on
 *            this client may have it.
 * @retval HF_OK        Started.
 * @retval HF_ENOTHELD, HF_ELOST   It is not held.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_renew_start(hf_hold *hold, int64_t op);

/**
 * Start hf_hold_extend(); answers as hf_hold_renew_start(). If HF_EXTEND_REPLACE shortens
 * the hold, it is shorter locally at once.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_extend_start(hf_hold *hold, int64_t duration_ms, uint32_t flags,
                                      int64_t op);

/**
 * Start hf_hold_check(); answers as hf_hold_renew_start().
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_check_start(hf_hold *hold, int64_t op);

/**
 * Start hf_hold_keep(). An HF_KIND_RELEASE completion follows if, and only if, this answers
 * HF_OK; the hold is over when that says so.
 *
 * @param op  The caller's number for it, above 0; no other operation under way on
 *            this client may have it.
 * @retval HF_OK        Started.
 * @retval HF_ENOTHELD, HF_ELOST   It is not held.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_keep_start(hf_hold *hold, int64_t duration_ms, int64_t op);

/**
 * Cancel a started acquire. Its completion still follows: HF_ECANCELED with
 * nothing left behind, or HF_OK with the hold if it had the lock already.
 *
 * @retval HF_OK        Its completion follows, or is on the queue.
 * @retval HF_ENOTHELD  No such acquire is under way: its completion is on the queue,
 *                      or follows when its replicas have it, or it its whole lease.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_op_cancel(hf_client *client, int64_t op);

/* ---------------------------------------------------------- For bindings */

/*
 * For a language whose objects stand before these handles: its threads or tasks are
 * the owners, its runtime runs the signal handlers, and its collector finds what was
 * forgotten. A program in C needs none of it.
 */

/**
 * Close the client without releasing its holds; each ends with its lease. For
 * finalizers, which must not end a section that may still be running.
 *
 * Threads:  any, once, instead of hf_client_close().   Blocks: never.   Since: 0.1.
 */
HF_API void hf_client_abandon(hf_client *client);

/**
 * Write the owner that stands for the thread, task or operation `serial` of
 * this client: `<client name>@<host>/<pid>:<32 hex digits of the client>:<kind><serial>`. For
 * languages whose threads or tasks are not the system's; pass it to
 * hf_lock_acquire_as() and hf_lock_release_as().
 *
 * @param kind      't' for a thread, 'a' for a task, 'o' for an operation.
 * @param serial    Positive, and never reused in this process. 0 with 't': the calling
 *                  thread, as the owner of its own acquires.
 * @param[out] buffer  Receives the owner, NUL-terminated.
 * @param capacity  The size of buffer; HF_DEFAULT_OWNER_MAX is always enough.
 * @retval HF_OK
 * @retval HF_EINVAL  The kind or the serial is wrong, or the buffer is too small.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_owner(const hf_client *client, char kind, int64_t serial, char *buffer,
                                 size_t capacity);

/* ------------------------------------------------------------------ Once */

/** The longest result, in bytes. */
#define HF_RESULT_MAX 1048576

/**
 * Have something done once, however many want it, on all hosts: a call that
 * charges, a report. The first caller is answered HF_OK; it does it, and gives the
 * result to hf_once_finish(). All others wait, and are answered HF_EDONE with that
 * result, with no turn of the lock in between; so are later ones, for as long as the
 * result stays. If the first one fails it releases the hold, with hf_hold_release(),
 * and the next one is answered HF_OK; so it is if the first one dies and its lease
 * ends. If the lease ends while the first one is still at work, two do it: give the
 * lock a lease that is renewed, and the fence to what must not be done twice.
 *
 * It is one lock: while somebody holds it by hf_lock_acquire() the work is not done, and
 * the other way round. Each call is its own owner, and never nests.
 *
 * @param timeout_ms  As hf_lock_acquire(). 0: do it, or take the result, or HF_EBUSY.
 * @param options     NULL for the defaults.
 * @param[out] hold_out  HF_OK: the hold. HF_EDONE: what hf_hold_result() takes the result
 *                    from; it holds nothing. Give both back with hf_hold_close(). Else NULL.
 * @retval HF_OK      The caller must do it.
 * @retval HF_EDONE   It has been done.
 * @retval others     As hf_lock_acquire_as().
 *
 * Threads:  any.   Blocks: as hf_lock_acquire().   Since: 0.1.
 */
HF_API hf_status hf_once_begin(hf_lock *lock, int64_t timeout_ms, const hf_acquire_options *options,
                               hf_hold **hold_out);

/**
 * Release the hold, and leave a result for all that wait and for those that come while
 * it stays. A result of before is replaced.
 *
 * @param result   Any bytes; NULL only if length is 0. They are copied.
 * @param length   Up to HF_RESULT_MAX.
 * @param ttl_ms   How long the result stays, 10000 (so that nobody that waits misses it) to
 *                 HF_LEASE_MAX.
 * @retval HF_OK        Released, with the result.
 * @retval HF_EINVAL    The result or ttl_ms is out of bounds, or the hold is shared. It is still
 * held.
 * @retval HF_ESERVER   Released, but the server did not keep the result: its memory is full. The
 *                      next one that waits does it again.
 * @retval HF_ELOST     The hold was lost before: another may do it, or did. The result is kept only
 *                      if the server still knew the hold.
 * @retval others       As hf_hold_release().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_once_finish(hf_hold *hold, const void *result, size_t length, int64_t ttl_ms);

/**
 * The result with which hf_once_begin() answered HF_EDONE.
 *
 * @param[out] length_out  Its length; may be NULL.
 * @return  Its bytes, with a NUL behind them, valid until hf_hold_close(); NULL if the hold
 *          has none.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const void *hf_hold_result(const hf_hold *hold, size_t *length_out);

/**
 * Start hf_once_begin(). An HF_KIND_ACQUIRE completion follows if, and only if, this answers
 * HF_OK; hf_op_cancel() ends it.
 *
 * @param op  The caller's number for it, as hf_lock_acquire_start().
 * @retval HF_OK  Started.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_once_begin_start(hf_lock *lock, int64_t timeout_ms,
                                     const hf_acquire_options *options, int64_t op);

/**
 * Start hf_once_finish(). An HF_KIND_RELEASE completion follows if, and only if, this answers
 * HF_OK; the hold is over in either case, but for HF_EINVAL.
 *
 * @retval HF_OK  Started.
 * @retval HF_ENOTHELD, HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_once_finish_start(hf_hold *hold, const void *result, size_t length,
                                      int64_t ttl_ms, int64_t op);

/**
 * Tell a waiting thread whether a signal should end its wait. Answer 0: not
 * now; above 0: yes; below 0: never on this thread, do not ask again in this wait.
 */
typedef int (*hf_interrupt)(void *context);

/**
 * Call `check` on waiting threads after a signal, and every 50 ms in case one
 * arrived just before the wait. A language can thus run its signal handlers
 * without losing its place in the queue. No client lock is held during the
 * call. A positive answer ends the wait with HF_EINTR, and nothing is held.
 *
 * @param check    NULL for no check, the default.
 * @param context  Given to `check` at each call; the caller's.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any; set it before the first wait.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_set_interrupt(hf_client *client, hf_interrupt check, void *context);

/**
 * Count the valid holds of the handle's mode that the owner left with this client,
 * that is, how often hf_lock_release_as() would succeed.
 *
 * @param owner  NULL for the lock's owner.
 * @return  0 or more; 0 on any error.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_lock_count_as(const hf_lock *lock, const void *owner, size_t owner_len);

/**
 * Get the newest hold that the owner left with the client, which
 * hf_lock_release_as() would release next.
 *
 * @param owner  NULL for the lock's owner.
 * @param[out] hold_out  A handle of the same hold; give it back with hf_hold_close().
 * @retval HF_OK
 * @retval HF_ENOTHELD  The owner left no hold.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_current_as(hf_lock *lock, const void *owner, size_t owner_len,
                                    hf_hold **hold_out);

/**
 * Find a lock of which an owner left a hold with this client. For languages
 * that notice the end of a thread: the client may go on renewing the holds that
 * it left, and nobody else releases them.
 *
 * @param owner         As given to hf_lock_acquire_as().
 * @param[out] name     Receives the name of one such lock.
 * @param capacity      The size of name; a name has HF_NAME_MAX bytes at most.
 * @param[out] name_len_out  The name's length.
 * @retval HF_OK        It left at least one.
 * @retval HF_ENOTHELD  It left no hold.
 * @retval HF_EINVAL    A pointer is NULL, or the buffer is too small.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_kept(hf_client *client, const void *owner, size_t owner_len, void *name,
                                size_t capacity, size_t *name_len_out);

/**
 * Would a try be in vain? So it is, for all that this client knows, while others of
 * it wait for that lock, and for a second after a hold that was waited for. An
 * acquire that is started then queues at once, which costs one request less than a
 * try before it.
 *
 * @return  1 or 0; 0 on any error.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_lock_contended(const hf_lock *lock);

/**
 * Count an acquire that ended so, after a try with HF_ACQUIRE_UNCOUNTED that was all of it.
 *
 * @param status      Not HF_OK: that is counted.
 * @param timeout_ms  Of HF_ETIMEOUT: for the message of the alarm, which this may raise.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_ended(hf_lock *lock, hf_status status, int64_t timeout_ms);

/**
 * Make holds belong together: from now on losing one is losing all. As soon as one is lost, or
 * found to be lost, the others are too, for the same cause: a completion tells of each, and they
 * are released on the server in the background. hf_hold_remaining_ms() answers the least of all.
 * A hold that is released, kept, handed over or closed leaves the others to go on without it.
 *
 * For bindings whose waits are their own; otherwise hf_lock_acquire_all() does it.
 *
 * @param holds  Holds of one client, each once, in no other such group.
 * @param count  1 to HF_JOIN_MAX.
 * @retval HF_OK        They are joined, and all are held.
 * @retval HF_EINVAL    They are not such holds. Nothing was changed, here as below.
 * @retval HF_ELOST     One is lost.
 * @retval HF_ENOTHELD  One was released.
 * @retval HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_join(hf_hold *const *holds, size_t count);

/**
 * What another thread pulls to end a request. While a thread has a brake, each request of its
 * calls is sent once, and only if a connection to the server is open and free at that moment.
 * An acquire that tries once (timeout_ms 0) then waits for that one answer only, and the pull ends
 * that. It does not end the wait for replicas, if the lock asks for them.
 *
 * The call then fails: with HF_ECONNECT if nothing was sent, which is also its answer where no
 * connection is free; and with HF_EUNKNOWN if the server may have carried it out. An acquire
 * that fails so is undone in the background, as always.
 */
typedef struct hf_brake hf_brake;

/**
 * Make a brake. Once pulled it stays so: it is for many calls, but for one pull.
 *
 * @param[out] brake_out  Give it back with hf_brake_close().
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ENOMEM
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_brake_open(hf_brake **brake_out);

/**
 * Give it back. No thread may have it, and no pull may be under way. NULL does nothing.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_brake_close(hf_brake *brake);

/**
 * Put the brake on the calling thread's requests. NULL takes it off again: do so after the call.
 *
 * @param brake  One thread at a time may have it.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_brake_set(hf_brake *brake);

/**
 * End the request that is under way with this brake, at once, and refuse those that follow.
 * NULL does nothing.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_brake_pull(hf_brake *brake);

#ifdef __cplusplus
}
#endif

#endif
