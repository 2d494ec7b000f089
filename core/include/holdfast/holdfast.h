/*
 * Holdfast: a distributed lock on Redis.
 *
 * This header is the manual of the C library. It declares the whole public interface and does not
 * expose hiredis.
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
 * Threads.  Every function may be called from any thread at any time, with one exception: do not
 * use a handle while another thread closes it, or afterwards. Closing a lock or a client does not
 * invalidate the holds made with it. (Only hf_client_next() may still read the last completions of
 * a closed client, as long as one of its locks or holds is open.) A thread cancelled by
 * pthread_cancel() first runs to the end of the library function: give an acquire a timeout, and
 * release in a cleanup handler.
 *
 * Forks.  A client belongs to the process that opened it. In a forked child its functions return
 * HF_EFORKED and do nothing; open a new client there.
 *
 * Ownership.  A handle returned through an `_out` parameter belongs to the caller, which closes it
 * with the matching `_close`. A string or descriptor returned as a value belongs to the library.
 * The library copies the strings passed to it.
 *
 * Time.  Durations are milliseconds. Deadlines are kept on CLOCK_BOOTTIME (macOS: CLOCK_MONOTONIC),
 * which keeps running while the machine is suspended; the server's clock decides everything else.
 * `Blocks:` is the time for which a call may wait, while its process runs. With several masters a
 * second round of requests may follow the first, so that each connect_timeout_ms counts twice, but
 * for that of an acquire's wait. A call that waits for replicas takes replica_timeout_ms more.
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

/* The version of the whole project, read from here by every other file. */
#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

#if defined(SWIG) || !defined(__GNUC__)
#define HF_API
#else
#define HF_API __attribute__((visibility("default")))
#endif

/* ---------------------------------------------------------------- Status */

/**
 * The result of a call: HF_OK or an HF_E* value. Released values never change their meaning. Any
 * call may return HF_EINVAL for a NULL handle, and HF_ENOMEM; any call that asks a server may
 * return HF_EUNSUPPORTED.
 */
typedef int hf_status;

enum {
    HF_OK = 0,
    /** An argument is wrong. Nothing was done. */
    HF_EINVAL = 1,
    /** Out of memory, descriptors or threads. Nothing was done. */
    HF_ENOMEM = 2,
    /** Another owner holds the lock, and timeout_ms was 0. */
    HF_EBUSY = 3,
    /** Other owners kept the lock for the whole timeout. Nothing is left behind. */
    HF_ETIMEOUT = 4,
    /** The caller does not hold the lock. Nothing was changed. */
    HF_ENOTHELD = 5,
    /** The hold was lost earlier: its lease ended, or its key was taken away. */
    HF_ELOST = 6,
    /**
     * A connection failed before the answer arrived and could not be restored in time: the server
     * may or may not have executed the request.
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
    /** The server does not speak the Redis protocol, or its answer is malformed. */
    HF_EPROTOCOL = 13,
    /**
     * The server is too old or of the wrong kind, the URL's scheme is not supported, or a quorum of
     * masters cannot do this. Nothing was done.
     */
    HF_EUNSUPPORTED = 14,
    /** The client is closed. */
    HF_ECLOSED = 15,
    /** The client belongs to the process that this one was forked from. */
    HF_EFORKED = 16,
    /**
     * Fewer replicas than requested confirmed the lock in time; see hf_error_last(). The lock was
     * released again. Nothing is held.
     */
    HF_EREPLICAS = 17,
    /**
     * Calls that are made once: the call has been made, and the handle has its result. Nothing is
     * held.
     */
    HF_EDONE = 18,
    /**
     * The owner holds the lock shared and requested it exclusively, or with a greater weight: it
     * would wait for itself. The shared hold stays, and nothing else is held.
     */
    HF_EDEADLOCK = 19,
    /**
     * Calls that are made once: the call failed with an error that is kept. The handle has the
     * error. Nothing is held.
     */
    HF_EFAILED = 20,
    /**
     * Calls that are made at most once: the call began, and no server knows how it ended. The
     * handle has the owner that made it, and when. Nothing is held. See hf_once_settle().
     */
    HF_EOUTCOME = 21,
    /**
     * Calls that are made once: the record of this name belongs to a call with other arguments,
     * or in the other mode. Nothing is held.
     */
    HF_EMISMATCH = 22,
    /**
     * Calls that are made once: the result was not kept, because the call was settled meanwhile
     * (hf_once_settle()), or the record is another caller's.
     */
    HF_ESETTLED = 23,
    /**
     * A limit is stored with the name (hf_lock_limit()), and this acquire gives another number of
     * permits, or takes more permits than that; or the acquire has a weight, and no number of
     * permits is known. Nothing is held.
     */
    HF_ELIMIT = 24
};

/**
 * Return the short, constant name of a status, such as "HF_EBUSY".
 *
 * @return  A static string; "HF_E?" for an unknown number.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_status_name(hf_status status);

/**
 * Return a message about this thread's last call that did not return HF_OK: what went wrong, and
 * what to do about it. The message never contains a password or a hold id.
 *
 * @return  This thread's string, valid until its next call; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_error_message(void);

/** The size of the longest message of an hf_error, in bytes, including its NUL. */
#define HF_MESSAGE_MAX 400

/** The error of a call of this thread, or of a started operation. */
typedef struct hf_error {
    /** With HF_EREPLICAS: the number of replicas that confirmed the lock; otherwise 0. */
    int64_t replicas;
    /** With HF_ELOST: the cause of the loss, HF_CAUSE_*; HF_CAUSE_NONE if it is not known. With
     * HF_EBUSY: HF_CAUSE_EXPIRED if the lease ended before the answer arrived. */
    int32_t cause;
    /** With hf_lock_acquire_all(): the index of the lock that the message is about; otherwise 0. */
    int32_t lock;
    /** The text that hf_error_message() returns. */
    char message[HF_MESSAGE_MAX];
} hf_error;

/**
 * Return the error of this thread's last call that did not return HF_OK.
 *
 * @return  This thread's error, valid until its next call; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const hf_error *hf_error_last(void);

/**
 * Return the version of the library in use, such as "0.1.0".
 *
 * @return  A static string.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_version(void);

/* ---------------------------------------------------------------- Client */

/**
 * Connections, and the holds acquired through them: to each server at most two connections for
 * requests and one on which grants arrive, and one more while acquires wait for replicas.
 * Simultaneous calls share them. A client without calls for 60 s keeps one connection.
 */
typedef struct hf_client hf_client;
/** A name to lock, with its options. */
typedef struct hf_lock hf_lock;
/** One successful acquire. */
typedef struct hf_hold hf_hold;

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_client_options {
    /** sizeof(hf_client_options) of the caller's header. */
    uint32_t size;
    /**
     * HF_ON: hf_client_open() only checks the address; the first call connects, within its own time
     * limit. Default HF_OFF.
     */
    int32_t lazy;
    /**
     * The time limit to reach the server and log in, milliseconds; default 2000. It does not bound
     * the look-up of a name or the reading of a password file: hf_client_open(), and each blocking
     * function that finds no open connection, may wait longer for a name server that does not
     * answer. Functions that start an operation never wait for it.
     */
    int64_t connect_timeout_ms;
    /** The time limit for the answer to one command, milliseconds; default 2000. */
    int64_t command_timeout_ms;
    /**
     * TCP keep-alive: after keepalive_ms of silence the system probes the other end. Milliseconds,
     * rounded up to seconds; default 15000; HF_NEVER turns it off. If no answer arrives within
     * another keepalive_ms, the connection ends.
     */
    int64_t keepalive_ms;
    /**
     * The name of the client's connections in CLIENT LIST: 1 to 63 printable
     * ASCII characters without spaces, and a NUL; default "holdfast".
     */
    char client_name[64];
    /**
     * How long the server remembers the last fence of a lock, milliseconds since it was granted;
     * default 86400000, a day; at least 1000. This takes one small key for each lock name. If the
     * last fence is forgotten, the next fence comes from the server's clock: it is smaller only if
     * that clock stepped back by more than the time since the last release.
     */
    int64_t fence_life_ms;
    /**
     * HF_ON: keep separate counts for each lock name, unless hf_lock_options.count_name overrides
     * this. Default HF_OFF: names are counted together.
     */
    int32_t count_names;
    /**
     * The maximum number of names with separate counts, 1 to 10000; default 100. Further names are
     * counted together, so that a lock name for each order does not make a series for each order.
     */
    uint32_t names_max;
    /**
     * The alarm: as soon as alarm_timeouts acquires of one lock have timed out (HF_ETIMEOUT) within
     * alarm_window_ms, the completion queue reports it (HF_KIND_ALARM), and not again for that lock
     * before another alarm_window_ms has passed. Default 0: never. The window is exact to an
     * eighth: timeouts within 9/8 of it may count together. A client watches 256 locks at once: the
     * locks with the most timeouts.
     */
    int32_t alarm_timeouts;
    /**
     * HF_ON: the completion queue reports trouble before a hold is lost (HF_KIND_TROUBLE), and each
     * failover (HF_KIND_FAILOVER). HF_OFF, the default: it does not.
     */
    int32_t trouble;
    /** The window of the alarm, milliseconds; see alarm_timeouts. */
    int64_t alarm_window_ms;
} hf_client_options;

/**
 * Open a client: connect, log in, and check that the server is Redis 6.2 or newer.
 *
 * @param url      NUL-terminated; percent-encode characters that are special in a URL.
 *                 `redis://[[user]:password@]host[:port][/database]`
 *                 `unix://[[user]:password@]/path/to/socket`
 *                 `redis+sentinel://[[user]:password@]host[:port],.../service[/database]`
 *                 `redis+cluster://[[user]:password@]host[:port],...`
 *                 `redis+quorum://[[user]:password@]host[:port],host[:port],host[:port][/database]`:
 *                 3 to 9 independent masters, of which a majority must agree
 *                 `valkey` may replace `redis`. `rediss` or `valkeys` means
 *                 TLS 1.2 or newer; the client checks the server's certificate and
 *                 name. Options follow a `?`:
 *                 `db`; `password_file` or `password_env`, from which each new
 *                 connection reads the password; for TLS `tls_ca` (a file or
 *                 folder; default: the system's), the client's `tls_cert` and
 *                 `tls_key`, and `tls_verify=off`. Members of
 *                 hf_client_options can be given there too: `connect_timeout`,
 *                 `command_timeout` and `keepalive` in seconds (`0.5`; a
 *                 keepalive of `0` turns it off), `client_name`, `lazy=on`,
 *                 `fence_life` in seconds. `replicas` is the default of
 *                 hf_lock_options.replicas. For a quorum `quarantine`, in seconds,
 *                 default 30: a master that has been up for less gives no new hold,
 *                 because it may have forgotten others; no lease may be longer. `0`:
 *                 the masters keep their data over a restart, and leases have any length.
 * @param options  NULL for the defaults. A member that is set overrides the URL.
 * @param[out] client_out  The client; close it with hf_client_close().
 * @retval HF_OK
 * @retval HF_EINVAL        The URL or an option is wrong.
 * @retval HF_EUNSUPPORTED  The server is too old; it is a cluster node and the URL does not name a
 *                          cluster, or the reverse; or the URL requires TLS on a machine without
 *                          OpenSSL.
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
 * Return a warning about a danger that was found when the client was opened: a maxmemory-policy
 * that may evict a held lock; a server that is a master of a quorum and is used alone; an even
 * number of masters; `quarantine=0` and a master without an append-only file. The text is meant for
 * a log.
 *
 * @return  The client's string; empty if there is no problem or if the user lacks the permission
 *          for INFO; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const char *hf_client_warning(const hf_client *client);

/**
 * Send a PING to every server that the client uses (in a Cluster, each master) and wait for the
 * answers. For health checks. The masters of a quorum are asked at once.
 *
 * @param[out] servers_out  The number of servers that answered; of a quorum, those that needed no
 *                          more than twice the majority's time. May be NULL.
 * @retval HF_OK  All servers answered; of a quorum, a majority.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_EUNSUPPORTED, HF_EINVAL, HF_ECLOSED,
 *         HF_EFORKED, HF_ENOMEM   A server did not answer; without a quorum, the servers after it
 *         were not pinged.
 *
 * Threads:  any.   Blocks: one round trip to each, at most connect_timeout_ms each; one more if a
 * lazy client of a Cluster has made no call before.   Since: 0.1.
 */
HF_API hf_status hf_client_ping(hf_client *client, size_t *servers_out);

/** The severity of a finding of hf_client_survey(). */
enum {
    /** As it should be. */
    HF_FINDING_GOOD = 1,
    /** Worth knowing; or the setting could not be read, and the text gives the reason. */
    HF_FINDING_NOTE = 2,
    /** Locks can be lost, or the client cannot work. The text gives the remedy. */
    HF_FINDING_WARNING = 3
};

/** The maximum number of findings about one server. */
#define HF_FINDINGS_MAX 16

/** One setting of a server, filled in by hf_client_survey(). */
typedef struct hf_finding {
    /** HF_FINDING_GOOD, HF_FINDING_NOTE or HF_FINDING_WARNING. */
    int32_t level;
    /** The subject, NUL-terminated: `version`, `role`, `eviction`, `memory`, `persistence`,
     * `replicas`, `connections`, `timeout`, `keepalive`, `clock`, `permissions`; of a master of a
     * quorum also `run` (its start, and its quarantine), `members` (the list of masters
     * that it has) and `reach` (it does not answer: there is no other finding). */
    char subject[20];
    /** The server, without user and password; NUL-terminated. */
    char server[128];
    /** One sentence for a human reader, NUL-terminated. */
    char text[HF_MESSAGE_MAX];
} hf_finding;

/**
 * Check the settings of a server that matter to locks, as in docs/operations.md. Writes nothing.
 * Uses INFO, CONFIG GET, TIME and the client's own scripts; a missing permission becomes a note.
 *
 * @param server    The index of the server, from 0: the only server, or one of the masters of a
 *                  Cluster or a quorum.
 * @param name      A lock's name, to check whether the user has the permissions for its keys; in a
 *                  Cluster the lock's own master is checked. NULL: permissions are not checked.
 * @param[out] findings  Receives the findings.
 * @param capacity  The size of findings, at least HF_FINDINGS_MAX.
 * @param[out] count_out  The number of findings; 0: there is no such server.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_ECLOSED, HF_EFORKED,
 *         HF_ENOMEM
 *
 * Threads:  any.   Blocks: a few round trips, at most connect_timeout_ms each.   Since: 0.1.
 */
HF_API hf_status hf_client_survey(hf_client *client, size_t server, const void *name,
                                  size_t name_len, hf_finding *findings, size_t capacity,
                                  size_t *count_out);

/** The number of buckets of an hf_histogram, and the upper bound of the first, in microseconds. */
#define HF_BUCKETS 27
#define HF_BUCKET_US 64

/**
 * A histogram of durations. counts[0] counts durations up to 64 us (HF_BUCKET_US), and the upper
 * bound doubles with each bucket: counts[i] counts durations above 32 << i us and up to 64 << i us.
 * The last bucket counts all durations above 2147 s. The sum of the counts is the number of
 * durations.
 */
typedef struct hf_histogram {
    /** The sum of the durations, microseconds. */
    int64_t sum_us;
    int64_t counts[HF_BUCKETS];
} hf_histogram;

/**
 * Counts of a client or of one name, since the client was opened unless marked "now". Each acquire
 * with valid arguments is counted once, when it ends: either in `acquired`, or in one of the
 * fields from `answered_done` to `failed`.
 */
typedef struct hf_stats {
    /** sizeof(hf_stats) of the caller's header. */
    uint32_t size;
    uint32_t reserved;
    /** Now: holds that may still be on the server; acquires in a queue. */
    int64_t held, waiting;
    /** Acquires that got the lock; the part of them that waited in a queue. */
    int64_t acquired, queued;
    /** Calls of hf_once_begin() that got an outcome: HF_EDONE; HF_EFAILED; HF_EOUTCOME;
     * HF_EMISMATCH. */
    int64_t answered_done, answered_failed, answered_unknown, answered_mismatch;
    /** The lock was not free: HF_EBUSY, HF_ETIMEOUT. */
    int64_t busy, timed_out;
    /** A cancel or the close of the client ended the wait (HF_ECANCELED); a signal (HF_EINTR). */
    int64_t canceled, interrupted;
    /** An owner with a shared hold requested an exclusive one: HF_EDEADLOCK. */
    int64_t deadlocks;
    /** Too few replicas confirmed the lock: HF_EREPLICAS. */
    int64_t unreplicated;
    /** The outcome is unknown (HF_EUNKNOWN); the server was not reached (HF_ECONNECT); any other
     * status. */
    int64_t unknown, unreachable, failed;
    /** Holds released by a call, with the server's confirmation. */
    int64_t released;
    /** Holds that ended here and keep the lock: hf_hold_keep(), and releases before the time of
     * hf_hold_keep_at_least(). */
    int64_t kept;
    /** Calls that hf_once_mark() let this client make. */
    int64_t begun;
    /** Ends of calls by hf_once_finish(): a result or an error was kept; the outcome was left
     * unknown; the call was withdrawn (HF_ONCE_RETRY, and by hf_once_mark() if it fails); a result
     * or an error was not kept, or not before the function returned. */
    int64_t finished_done, finished_failed, finished_unknown, finished_retry, finished_unkept;
    /** Holds lost before a release, by HF_CAUSE_*. */
    int64_t lost_expired, lost_unreachable, lost_gone;
    /** Renewals by the client's own thread, at all masters as one; a claim of a grant is one. */
    int64_t renewed;
    /** How often the alarm was raised: HF_KIND_ALARM. */
    int64_t alarms;
    /** The number of names with separate counts, see hf_client_name_stats(); 0 in the counts of a
     * name. */
    int64_t names;
    /** Connections opened; the part of them that replaced a connection that broke, that the server
     * had closed, or whose answer did not arrive in time. 0 in the counts of a name. */
    int64_t connections, reconnects;
    /** Wait times of the acquires that got the lock, from the call until the lock was held: one
     * request if the lock was free. */
    hf_histogram wait;
    /** Durations of holds in this client: from their acquire or adoption until a call ended them
     * (release, hand over) or they were lost. */
    hf_histogram hold;
} hf_stats;

/**
 * Read the client's counts of all locks together. Sends nothing.
 *
 * @param[in,out] stats  Set stats->size first.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_stats(hf_client *client, hf_stats *stats);

/**
 * Read the counts of one name. A name has separate counts once a lock with that name is opened with
 * count_name on, and the client keeps them until it is closed; at most hf_client_options.names_max
 * names have them. All other locks are counted together, at index 0, so that the sum over all
 * indices equals the result of hf_client_stats().
 *
 * @param index      0: all locks whose names have no separate counts; or 1 to hf_stats.names.
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
 * Close the client: end waiting calls with HF_ECANCELED, release its holds and close its
 * connections. Locks and holds made with it stay valid handles whose calls return HF_ECLOSED. NULL
 * is allowed.
 *
 * If the server cannot be reached, the holds end with their leases. Release a hold whose lease is
 * HF_NEVER beforehand, and check that this succeeds. A hold that is just being kept stays kept.
 *
 * In a forked child this leaves the parent's locks and connections alone.
 *
 * Threads:  any, once.   Blocks: at most one command_timeout_ms.   Since: 0.1.
 */
HF_API void hf_client_close(hf_client *client);

/**
 * Stop the client: from now on none of its calls gets a lock. New calls return HF_ECLOSED, and a
 * waiting call returns HF_ECANCELED when the lock is granted to it, or at hf_client_close(), which
 * must follow. The holds stay until then. A program that ends with several clients stops all of
 * them first: then no thread that waits through one client gets the lock that the close of another
 * client releases. NULL is allowed.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_client_stop(hf_client *client);

/** The size of the longest default owner, in bytes, including its NUL. */
#define HF_DEFAULT_OWNER_MAX 448

/* ------------------------------------------------------------------ Lock */

/** A timeout: wait without limit. */
#define HF_FOREVER INT64_C(-1)
/** A lease or a remaining time that never ends. */
#define HF_NEVER INT64_C(-1)
/** A lease: the period of the gate whose rate is stored with the name, hf_lock_limit(). */
#define HF_STORED INT64_C(-2)

/** The shortest and the longest lease, in milliseconds: 10 ms, 10 years. */
#define HF_LEASE_MIN INT64_C(10)
#define HF_LEASE_MAX INT64_C(315360000000)
/** The default lease, in milliseconds. */
#define HF_LEASE_DEFAULT INT64_C(10000)
/** The longest name and the longest owner, in bytes. */
#define HF_NAME_MAX 4096
#define HF_OWNER_MAX 4096
/** The longest note of a hold, or of a call that is made once, in bytes. */
#define HF_NOTE_MAX 1024
/**
 * The bytes between an owner and its note, in the one text that the servers store. An acquire of
 * another client that gives this text as its owner nests in the hold: so does `holdfast run` in a
 * command of `holdfast run --note`.
 */
#define HF_NOTE_MARK "\037note="

/** An option that is off, on, or the library's choice. */
enum { HF_DEFAULT = 0, HF_ON = 1, HF_OFF = 2 };

/**
 * The mode of a handle's holds: hf_lock_options.mode. Handles of both modes may be open for one
 * name, in one process or in several.
 *
 * One queue serves both modes in order of arrival: a shared acquire does not pass a waiting
 * exclusive one, and an exclusive acquire waits for all earlier shared holds. Each shared hold has
 * its own lease and fence; if its process dies, only that hold ends.
 *
 * Nesting, if the handle is reentrant: an owner that holds the lock exclusively may acquire it
 * again in either mode, and its shared holds have the same fence. An owner with a shared hold of
 * this client may acquire another shared hold at once, regardless of the queue and the permits.
 *
 * Downgrade: acquire the lock shared through a second handle while the owner holds it exclusively,
 * then release the exclusive hold, or call hf_lock_release() with the first handle. The shared hold
 * stays, and no other owner gets the lock in between.
 *
 * Upgrade: if an owner with a shared hold of this client requests the lock exclusively, the call
 * returns HF_EDEADLOCK at once, because two such owners would wait for each other. Release the
 * shared hold first. If the client cannot detect this (the handle is not reentrant, or the shared
 * hold belongs to another client), the acquire waits for its owner's shared hold, until its
 * timeout.
 */
enum { HF_EXCLUSIVE = 0, HF_SHARED = 1 };
/** The maximum of hf_lock_options.permits. */
#define HF_PERMITS_MAX INT64_C(9999999999)
/** The maximum of hf_lock_options.ahead_ms: an hour. */
#define HF_AHEAD_MAX INT64_C(3600000)

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_lock_options {
    /** sizeof(hf_lock_options) of the caller's header. */
    uint32_t size;
    /**
     * Renew holds until they are released. Default HF_ON, whatever lease_ms is; HF_OFF: a hold ends
     * with its lease. HF_ON is refused with HF_NEVER, because there is nothing to renew.
     */
    int32_t renew;
    /**
     * The lease: how long the server keeps the lock for a hold that is not renewed, and so how
     * long a crashed holder delays the others. Milliseconds, or HF_NEVER; default 10000, or the
     * quarantine of a quorum if that is shorter.
     *
     * HF_STORED: each hold is a pass of a gate, and follows the rate that is stored with the name:
     * its time is the lease, and its passes are the permits. Without a stored rate an acquire
     * returns HF_ELIMIT. Takes HF_SHARED, no permits, and HF_OFF for renew and reentrant. A pass
     * waits for no replicas, also if the client's URL has a number; it has no lease of its own in
     * hf_acquire_options, is not renewed, and cannot be adopted.
     */
    int64_t lease_ms;
    /** Whether an owner that holds the lock may acquire it again. Default HF_ON. */
    int32_t reentrant;
    /**
     * HF_ON: when an acquire finds a foreign lock without a TTL, which would never end, it sets
     * this lock's lease as the TTL. Default HF_OFF.
     */
    int32_t heal;
    /**
     * End a hold max_hold_ms milliseconds after its grant at the latest, so that a stuck thread
     * does not keep the lock forever; HF_LEASE_MIN to HF_LEASE_MAX; default: no limit. The last
     * lease is cut to it; hf_hold_renew() and hf_hold_extend() do not pass it. If both handles have
     * a max_hold_ms, a nested hold ends with the hold that it nests in; a nested hold whose handle
     * has no max_hold_ms has no limit, and keeps the lock. Refused with HF_NEVER, and with renew
     * HF_OFF, where the lease is the limit.
     */
    int64_t max_hold_ms;
    /**
     * The number of replicas that must confirm an acquire before it returns (WAIT). If fewer
     * confirm it within replica_timeout_ms, the lock is released again and the call returns
     * HF_EREPLICAS; or HF_EUNKNOWN, if the server does not answer meanwhile. A failover then loses
     * fewer locks, but can still lose one: only the fence protects from that. Default: the number
     * in the client's URL, or 0.
     */
    int32_t replicas;
    /**
     * HF_SHARED: holds of this handle coexist with other shared holds, and exclude exclusive ones.
     * Default HF_EXCLUSIVE.
     */
    int32_t mode;
    /** The time limit for the replicas, milliseconds, shorter than the lease; default 1000, or half
     * of a short lease. Refused without replicas. */
    int64_t replica_timeout_ms;
    /**
     * With HF_SHARED: the lock is acquired only while fewer than `permits` shared holds exist,
     * so equal handles make a semaphore; 1 to HF_PERMITS_MAX. Default 0: no limit, as for
     * readers. Refused with HF_EXCLUSIVE.
     *
     * If a limit is stored with the name, a handle that gives another number is refused with
     * HF_ELIMIT, and a handle that gives 0 follows the stored number, from then on even if the
     * server loses it: a client remembers the limits of up to 256 names. Without a stored limit,
     * each handle follows its own number, and a waiter with a small number blocks the waiters
     * behind it. A nested hold needs no permit, but counts as a hold: if one thread should take
     * several permits, set reentrant to HF_OFF.
     */
    int64_t permits;
    /** Keep separate counts for this lock's name, see hf_client_name_stats(); default: the client's
     * count_names. */
    int32_t count_name;
    /** As in hf_client_options, for this handle; both 0: the client's values; below 0: never. */
    int32_t alarm_timeouts;
    int64_t alarm_window_ms;
    /**
     * A note for people: what the holds of this handle are for, at most HF_NOTE_MAX bytes,
     * preferably UTF-8. hf_lock_inspect() shows the note beside the owner of each holder and
     * waiter, and so does the message of a timeout. The server gets the note with each acquire.
     * Default: no note, at no cost. hf_lock_open() copies the note.
     *
     * A nested hold has the note of the hold that it nests in. To other clients, and to an acquire
     * of this client that waits already, the same owner with another note, or without a note, is
     * another owner: it does not nest.
     */
    const void *note;
    size_t note_len;
    /**
     * With HF_SHARED: the number of permits that each hold takes, 1 to `permits`, or to the limit
     * that is stored with the name (HF_ELIMIT if there is none, or a smaller one); default 0: one.
     * The acquire succeeds when the weights of all shared holds, including this one, add up to at
     * most the permits. In the queue no acquire passes a heavier acquire that arrived before, so
     * heavy acquires wait only for earlier acquires, and light acquires wait behind them.
     *
     * A nested hold counts with its whole weight. Inside its owner's shared hold it may be at most
     * as heavy as that hold: a heavier acquire returns HF_EDEADLOCK, because two such owners would
     * wait for each other.
     */
    int64_t weight;
    /**
     * The head start of an acquire that has to wait, milliseconds, at most HF_AHEAD_MAX: its
     * place in the queue is that of an acquire which arrived earlier by this time. So it passes
     * waiters that arrived up to ahead_ms before it, and a waiter is passed only by acquires that
     * arrive within their head start after it: no waiter waits for ever, however many acquires have
     * a head start. An acquire that nests, or finds the lock free without waiters, needs no head
     * start. While the server's clock is behind the queue, because it was set back, head starts
     * have no effect. Default 0.
     */
    int64_t ahead_ms;
} hf_lock_options;

/**
 * Make a handle for the lock called `name`. Sends nothing.
 *
 * @param name       1 to HF_NAME_MAX bytes. A name must not end in `:hf`, digits, `:` and one
 *                   letter, like the lock's own keys, and must not contain a } without a {tag}
 *                   before it.
 * @param owner      The owner that acquires through this handle. NULL: the calling thread, or, if
 *                   the lock is not reentrant, a new owner for every acquire. Equal owners are one
 *                   owner everywhere: the owner "worker" on ten hosts excludes nothing.
 * @param owner_len  1 to HF_OWNER_MAX bytes; 0 with NULL.
 * @param options    NULL for the defaults.
 * @param[out] lock_out  The lock; close it with hf_lock_close().
 * @retval HF_OK
 * @retval HF_EINVAL  The name, the owner or an option is wrong.
 * @retval HF_EUNSUPPORTED  A quorum has no shared holds, replicas, heal or endless leases.
 * @retval HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_open(hf_client *client, const void *name, size_t name_len,
                              const void *owner, size_t owner_len, const hf_lock_options *options,
                              hf_lock **lock_out);

/**
 * Close the handle. Its holds stay held. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_lock_close(hf_lock *lock);

/**
 * Acquire the lock, and wait up to timeout_ms while other owners hold it.
 *
 * The same owner may acquire again (if the lock is reentrant) and must then release as often. A
 * foreign lock under the same name, for example another library's plain string, excludes this lock
 * as a Holdfast lock would. See HF_SHARED for shared and exclusive holds.
 *
 * @param timeout_ms  Milliseconds; 0 tries once, HF_FOREVER waits without limit.
 * @param[out] hold_out  The hold; release it with hf_hold_release() and close the handle with
 *                       hf_hold_close(). NULL leaves the hold with the client, for
 *                       hf_lock_release().
 * @retval HF_OK         Held. The lease counts from before the request was sent.
 * @retval HF_EBUSY      timeout_ms was 0 and another owner holds the lock; or the lease ended
 *                       before the answer arrived.
 * @retval HF_ELOST      The lock has the replicas option, or HF_ACQUIRE_WHOLE was given, and the
 *                       lease ended before that was confirmed. Not held.
 * @retval HF_ETIMEOUT   Other owners kept the lock. Nothing is left on the server.
 * @retval HF_EINVAL     timeout_ms is below -1, or the masters of the quorum have another list of
 *                       masters. Not held.
 * @retval HF_EDEADLOCK  The owner holds the lock shared, and this handle is HF_EXCLUSIVE, or has a
 *                       greater weight.
 * @retval HF_ELIMIT     The number of permits, or the weight, is not that of the stored limit.
 * @retval HF_EUNKNOWN   The answer was lost: the lock may be held, unknown to any caller, until the
 *                       lease ends. Do not enter.
 * @retval HF_ECANCELED  The client was closed during the wait, or the thread's brake was pulled.
 * @retval HF_EREPLICAS  Too few replicas confirmed the lock in time. It was released again.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_EUNSUPPORTED, HF_ECLOSED,
 *         HF_EFORKED, HF_ENOMEM   Not held. Masters of a quorum may have given their votes all the
 *         same: the client gives these back in the background, and they end with the lease at the
 *         latest. Until then other callers may be refused.
 *
 * Threads:  any.   Blocks: up to timeout_ms plus one connect_timeout_ms, plus replica_timeout_ms if
 * the lock has the replicas option.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire(hf_lock *lock, int64_t timeout_ms, hf_hold **hold_out);

/** For hf_acquire_options.flags: leave the hold with the client, for hf_lock_release(). */
#define HF_ACQUIRE_KEEP 1u
/** For hf_acquire_options.flags: a signal ends the wait with HF_EINTR. */
#define HF_ACQUIRE_INTERRUPTIBLE 2u
/**
 * For hf_acquire_options.flags, for bindings: the caller holds the lock already, as another owner.
 * An acquire that would have to wait returns HF_EDEADLOCK instead, because it would wait for
 * itself.
 */
#define HF_ACQUIRE_HOLDS 4u
/**
 * For hf_acquire_options.flags: return HF_OK only with at least two thirds of the lease left, as
 * after every renewal. A lock that was waited for is granted for 3 s, and is renewed to its whole
 * lease about a second after the acquire returns; with this flag, the acquire renews it before it
 * returns, with one more request. Less is left if that answer takes a third of the lease, or if
 * max_hold ends the hold. For callers that stop some time before the lease ends, such as
 * leaders. If that request fails, the lock is released again, and the acquire returns the status of
 * the request.
 */
#define HF_ACQUIRE_WHOLE 8u
/**
 * For hf_acquire_options.flags, only with hf_once_begin(): the call is to be made at most once, so
 * that hf_once_mark() must come before it. All callers of a name must agree on this.
 */
#define HF_ACQUIRE_AT_MOST_ONCE 16u

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_acquire_options {
    /** sizeof(hf_acquire_options) of the caller's header. */
    uint32_t size;
    /** HF_ACQUIRE_KEEP, _INTERRUPTIBLE, _HOLDS, _WHOLE; for hf_once_begin() also _AT_MOST_ONCE. */
    uint32_t flags;
    /** Milliseconds, or HF_NEVER; default: the lock's lease_ms. */
    int64_t lease_ms;
    /** Renew until released; default: the lock's renew. */
    int32_t renew;
    int32_t reserved;
    /** The note of this hold, as in hf_lock_options; default: the lock's note. */
    const void *note;
    size_t note_len;
} hf_acquire_options;

/**
 * Acquire as hf_lock_acquire() does, with an owner and options for this call only.
 *
 * HF_ACQUIRE_KEEP and hold_out may be combined: the hold is then on the owner's stack, where
 * hf_lock_release() finds it, and the caller also has a handle of it.
 *
 * @param owner    NULL for the lock's owner, see hf_lock_open().
 * @param options  NULL for the defaults.
 * @retval HF_EINTR  A signal ended the wait. Nothing is held.
 * @retval HF_EINVAL, and every status of hf_lock_acquire().
 *
 * Threads:  any.   Blocks: as hf_lock_acquire(), and one connect_timeout_ms more with
 *           HF_ACQUIRE_WHOLE.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire_as(hf_lock *lock, const void *owner, size_t owner_len,
                                    int64_t timeout_ms, const hf_acquire_options *options,
                                    hf_hold **hold_out);

/** The maximum number of locks of hf_lock_acquire_all(). */
#define HF_JOIN_MAX 100

/**
 * Acquire several locks: all or none.
 *
 * The locks are acquired one after the other, in the byte order of their names. So callers that
 * pass them in different orders cannot deadlock; a caller that already holds one of them can. One
 * deadline covers all locks. If a lock cannot be acquired, the locks acquired before it are
 * released, in the background if the server does not answer. If the lease of a lock ends while the
 * call waits for later locks, the call starts over, within the deadline, after a pause that grows
 * to a second: the lease must be longer than the round trips for all locks.
 *
 * The holds are joined: if one is lost, all are lost. As soon as one hold is lost, or found to be
 * lost, the others are lost too, for the same cause: a completion reports each loss, and the holds
 * are released on the server in the background. hf_hold_remaining_ms() returns the minimum of all.
 * If a hold is released, kept, handed over or closed, the others stay joined without it. Each hold
 * has its own fence. Release each hold with hf_hold_release(), in any order.
 *
 * @param locks    Locks of one client, no two of the same name; exclusive and shared ones may be
 * mixed.
 * @param count    1 to HF_JOIN_MAX.
 * @param owner    For each lock, as for hf_lock_acquire_as().
 * @param timeout_ms  Milliseconds; 0 tries each lock once, HF_FOREVER waits without limit.
 * @param options  `count` pointers, in the order of `locks`; NULL, in the array or in its place,
 *                 for the defaults.
 * @param[out] holds_out  Receives `count` holds, in the order of `locks`; or `count` NULLs if the
 *                        call does not return HF_OK.
 * @retval HF_OK      All are held.
 * @retval HF_EINVAL  Two locks have the same name, the locks belong to different clients, or as
 *                    hf_lock_acquire_as(). Nothing is held.
 * @retval others     As hf_lock_acquire_as(), for the first lock that could not be acquired; the
 *                    message names it, and hf_error.lock is its index. Nothing is held, except as
 *                    described there for HF_EUNKNOWN.
 *                    HF_ECONNECT also if a lease ended during an outage and the timeout has passed.
 *
 * Threads:  any.   Blocks: up to timeout_ms, and for each lock as long as hf_lock_acquire_as() may
 * block beyond its timeout; then one connect_timeout_ms for each release of an acquired lock.
 * Since: 0.1.
 */
HF_API hf_status hf_lock_acquire_all(hf_lock *const *locks, size_t count, const void *owner,
                                     size_t owner_len, int64_t timeout_ms,
                                     const hf_acquire_options *const *options, hf_hold **holds_out);

/**
 * Release the newest hold that the caller left with the client. The same owner acquired it with
 * hold_out NULL or with HF_ACQUIRE_KEEP, through any handle of this client with the same name and
 * mode: if an owner holds the lock in both modes, the handle selects the hold to release.
 *
 * If the lock is not reentrant and has no owner, every thread may release what was acquired through
 * this handle. Of a lock that is not reentrant, with or without an owner, the calling thread
 * releases the newest hold that it acquired itself, even if that was lost; if it has none, the
 * newest hold of any other thread or of a started acquire.
 *
 * @retval HF_OK        Released.
 * @retval HF_ENOTHELD  The caller has no such hold. Nothing was changed.
 * @retval others       As hf_hold_release(). The hold is no longer on the stack, unless it is still
 *                      held: it was to keep the lock, hf_hold_keep_at_least(), and could not.
 *
 * Threads:  any.   Blocks: as hf_hold_release().   Since: 0.1.
 */
HF_API hf_status hf_lock_release(hf_lock *lock);

/**
 * Release as hf_lock_release() does, for an owner given as in hf_lock_acquire_as().
 *
 * Threads:  any.   Blocks: as hf_hold_release().   Since: 0.1.
 */
HF_API hf_status hf_lock_release_as(hf_lock *lock, const void *owner, size_t owner_len);

/** The state of a lock on the server, filled in by hf_lock_inspect(). */
typedef struct hf_lock_info {
    /** sizeof(hf_lock_info) of the caller's header. */
    uint32_t size;
    /** 1 if the lock is held, through this library or another. */
    int32_t held;
    /** 1 if another library's lock holds it. */
    int32_t foreign;
    /** 1 if the lock is held shared; 0 if exclusively, free or foreign. */
    int32_t shared;
    /** The number of valid holds, including nested ones; 0 if free or foreign. */
    int64_t count;
    /** The holder's fence, or the fence of the shared hold that ends first; 0 if free or
     * foreign. */
    int64_t fence;
    /** The time until the last hold ends, milliseconds; HF_NEVER; 0 if free. */
    int64_t remaining_ms;
    /** The number of acquires in the queue, shared and exclusive. */
    int64_t waiters;
    /** How long its owner has held the lock, milliseconds by the server's clock; 0 if free or
     * foreign. The fence is the microsecond at which the owner acquired it. If the lock is held
     * shared, this is the time of the hold that ends first, not of the oldest. */
    int64_t held_ms;
    /** The time until the record of its call expires, milliseconds; HF_NEVER; 0: the lock has no
     * record. The record of a call that has begun, or that may be made again, counts too. */
    int64_t result_ms;
    /**
     * 1 if its cluster slot is being moved, so that only the lock's own key could be read: the
     * waiters and the result are unknown, and so are the deadlines if there are several holds.
     */
    int32_t moving;
    /** 1 if the first holder keeps the lock: hf_lock_holder.kept. */
    int32_t kept;
    /** The limit that is stored with the name, hf_lock_limit(): the permits, or the passes of a
     * gate in per_ms milliseconds; 0: no limit; per_ms 0: not of a gate. */
    int64_t permits, per_ms;
} hf_lock_info;

/** One holder of a lock, filled in by hf_view_holder(). */
typedef struct hf_lock_holder {
    /** sizeof(hf_lock_holder) of the caller's header. */
    uint32_t size;
    /** HF_EXCLUSIVE or HF_SHARED. */
    int32_t mode;
    /** Its fence, for hf_lock_break(); the number of its holds with that fence, including nested
     * ones. */
    int64_t fence, count;
    /** How long it has held the lock, milliseconds by the server's clock. */
    int64_t held_ms;
    /** The time until the last of these holds ends, milliseconds; HF_NEVER. */
    int64_t remaining_ms;
    /** The owner's bytes, which belong to the view. */
    const void *owner;
    size_t owner_len;
    /** The note: hf_lock_options.note; of a hold without one, note_len is 0. The bytes belong to
     * the view. */
    const void *note;
    size_t note_len;
    /**
     * 1 if the holder's work has ended, and it keeps the lock until remaining_ms has passed:
     * hf_hold_keep(), hf_hold_keep_at_least(). No client renews it, and its process may be gone.
     */
    int32_t kept;
    int32_t reserved;
    /** The sum of the weights of its shared holds: the number of permits that they take. */
    int64_t weight;
} hf_lock_holder;

/** One waiter in a lock's queue, filled in by hf_view_waiter(). */
typedef struct hf_lock_waiter {
    /** sizeof(hf_lock_waiter) of the caller's header. */
    uint32_t size;
    /** HF_EXCLUSIVE or HF_SHARED. */
    int32_t mode;
    /** hf_lock_options.permits of a shared waiter. */
    int64_t permits;
    /** How long it has waited, milliseconds by the server's clock; a head start counts as time
     * waited.
     */
    int64_t waited_ms;
    /** Its timeout, counted as waited_ms is; HF_FOREVER. */
    int64_t timeout_ms;
    /** The owner's bytes, which belong to the view. */
    const void *owner;
    size_t owner_len;
    /** The note of the hold that it waits for; as in hf_lock_holder. */
    const void *note;
    size_t note_len;
    /** hf_lock_options.weight of a shared waiter, at least 1; 0 of an exclusive one. */
    int64_t weight;
} hf_lock_waiter;

/**
 * The holders and waiters of a lock at one moment. A view does not change, and remains valid after
 * the lock and the client are closed.
 */
typedef struct hf_view hf_view;
/** The maximum number of holds, and of waiters, in a view. */
#define HF_VIEW_MAX 100

/**
 * Read the lock's state, whichever owner holds it. Changes nothing. The result may be out of date
 * when it arrives: do not enter because of it.
 *
 * @param first  The number of holds, and of waiters, to skip: 0, then HF_VIEW_MAX, and so on up to
 *               info->count and info->waiters. A hold nested in a hold of another view is listed
 *               separately. The info's fence, held_ms and kept are those of the first hold that
 *               the view lists, and 0 if the view lists no hold.
 * @param[in,out] info   Set info->size first. NULL if only the view is wanted.
 * @param[out] view_out  The holders, in the order in which their holds end, and the waiters, in the
 *                       order in which they will be served; close it with hf_view_close(). NULL if
 *                       only the info is wanted.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL,
 *         HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_inspect(hf_lock *lock, int64_t first, hf_lock_info *info,
                                 hf_view **view_out);

/**
 * Return the name of the lock of the view.
 *
 * @param[out] name_len_out  Its length.
 * @return  The view's bytes; never NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const void *hf_view_name(const hf_view *view, size_t *name_len_out);

/**
 * Return the number of holders, or of waiters, in the view.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API size_t hf_view_holders(const hf_view *view);
HF_API size_t hf_view_waiters(const hf_view *view);

/**
 * Read one holder, or one waiter, of the view.
 *
 * @param which  The index, from 0, below hf_view_holders() or hf_view_waiters().
 * @param[in,out] holder  Set holder->size first.
 * @retval HF_OK
 * @retval HF_EINVAL  A pointer is NULL, the size is not set, or the index is too large.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_view_holder(const hf_view *view, size_t which, hf_lock_holder *holder);
HF_API hf_status hf_view_waiter(const hf_view *view, size_t which, hf_lock_waiter *waiter);

/**
 * Close the view. This also frees the owners read from it. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_view_close(hf_view *view);

/** The parts of a default owner, filled in by hf_owner_parse(). */
typedef struct hf_owner_parts {
    /** sizeof(hf_owner_parts) of the caller's header. */
    uint32_t size;
    /** 't' for a thread, 'a' for a task, 'o' for one operation. */
    int32_t kind;
    /** The process on its host. */
    int64_t pid;
    /** The number of the thread, task or operation in that process, from 1; not the system's id. */
    int64_t serial;
    /** The 32 hex digits that identify this client, and a NUL. */
    char client_id[40];
    /** hf_client_options.client_name. */
    char client_name[64];
    /** The host's name, NUL-terminated. */
    char host[256];
} hf_owner_parts;

/**
 * Read the host, the process and more from a default owner, which an acquire without an explicit
 * owner has. For operators: any program may have chosen an owner of that form.
 *
 * @param owner  As in hf_lock_holder and hf_lock_waiter.
 * @param[in,out] parts  Set parts->size first.
 * @return  1; or 0 if it is not a default owner, a pointer is NULL or the size is not set: parts is
 *          unchanged.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_owner_parse(const void *owner, size_t owner_len, hf_owner_parts *parts);

/** For hf_lock_break(): also delete a foreign lock. */
#define HF_BREAK_FOREIGN 1u

/**
 * Take the lock away from one holder, and grant it to the next waiter that can have it. The holder
 * finds out at its next renewal or check; until then only the fence protects. Holds nested in the
 * holder's hold end too. Other shared holds stay. For operators.
 *
 * @param fence  The holder's fence, from hf_lock_inspect(): if another owner holds the lock
 *               meanwhile, nothing happens. 0 for a foreign lock.
 * @param flags  HF_BREAK_FOREIGN, which counts only with the fence 0, or 0.
 * @retval HF_OK        The hold was broken, or the lock was free.
 * @retval HF_ENOTHELD  No holder has that fence, or the lock is foreign. Nothing was changed.
 * @retval others       As hf_lock_inspect(), and HF_EUNKNOWN.
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_break(hf_lock *lock, int64_t fence, uint32_t flags);

/**
 * Store with the name how many permits the lock has, so that no shared handle can use another
 * number: an acquire that gives another number is refused with HF_ELIMIT, and an acquire that
 * gives no number follows the stored number. The limit stays until it is changed or removed. A
 * change ends no hold: after a smaller number, acquires wait until enough holds have ended; waiters
 * learn of a new number at once. Of several calls, the last one counts.
 *
 * @param permits  1 to HF_PERMITS_MAX; 0 removes the limit.
 * @param per_ms   0; or the time for which each pass of a gate counts, HF_LEASE_MIN to
 * HF_LEASE_MAX: then acquires must have that lease.
 * @param[out] permits_was  The number that was stored before; 0: no limit. NULL if not wanted.
 * @param[out] per_ms_was   The same for per_ms.
 * @retval HF_OK        Stored.
 * @retval HF_EREPLICAS Stored, but too few replicas for the handle's options confirmed it in time.
 * @retval HF_EUNKNOWN  The answer was lost: the limit is stored, or the client withdraws the
 * request in the background, so that it changes no limit that is stored later.
 * @retval others       As hf_lock_inspect(), and HF_EUNSUPPORTED on several masters.
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_limit(hf_lock *lock, int64_t permits, int64_t per_ms, int64_t *permits_was,
                               int64_t *per_ms_was);

/* ------------------------------------------------------------- All locks */

/** A walk over the locks of a server or a cluster. Calls from several threads run one at a time. */
typedef struct hf_locks hf_locks;

/** The default of hf_locks_options.rate. */
#define HF_RATE_DEFAULT INT64_C(500)

/** For hf_locks_options.flags: also list names with only the record of a call that is made once. */
#define HF_LOCKS_RECORDS 1u

/** Zero it, set size, and set the members that should not keep their default. */
typedef struct hf_locks_options {
    /** sizeof(hf_locks_options) of the caller's header. */
    uint32_t size;
    /** 0 or HF_LOCKS_RECORDS. */
    uint32_t flags;
    /**
     * The maximum number of reads a second, on all nodes together. A read of one lock takes a
     * server about 30 microseconds; a search of 100 keys for locks counts as six reads. Default
     * HF_RATE_DEFAULT, a fiftieth of one server's time; HF_NEVER: no limit.
     */
    int64_t rate;
} hf_locks_options;

/**
 * Begin to list the locks whose names match the pattern. Sends nothing yet.
 *
 * The walk reads all keys of the server, or of each master of the cluster, with SCAN. It needs the
 * permission for SCAN; in a cluster, the permission for CLUSTER NODES makes it faster. The server
 * serves other clients in between; hf_locks_options.rate bounds the part of its time that
 * the walk takes.
 *
 * Each lock that is held or waited for from the beginning to the end of the walk is listed once,
 * even if its slot moves to another node meanwhile; other locks may be missing, and any lock may
 * have changed since it was read. Foreign locks are listed if they are Redisson's or if a Holdfast
 * client waits for them; hf_lock_inspect() reads the others. No other application keys are listed.
 * With HF_LOCKS_RECORDS, names whose lock is free are listed too, if they have a
 * record: see hf_view_once().
 *
 * @param pattern  As in Redis's KEYS: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a special
 *                 character. 1 to HF_NAME_MAX bytes; NULL for all.
 * @param options  NULL for the defaults.
 * @param[out] locks_out  The walk; close it with hf_locks_close().
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
 * If a node does not answer or refuses a request, one call returns the error: the remaining locks
 * of that node are not listed, and the next call continues with the other nodes.
 *
 * @param[in,out] info   Set info->size first. May be NULL.
 * @param[out] view_out  Its name, holders and waiters, as from hf_lock_inspect(); close it with
 *                       hf_view_close(). NULL at the end.
 * @retval HF_OK         A lock, or the end.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_EUNSUPPORTED Not all locks of a node
 *                       are listed; the message names the node and the reason.
 * @retval HF_EINTR      The check of hf_client_set_interrupt() ended the call. The next call
 *                       continues.
 * @retval HF_ECANCELED  The client was closed during it.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM
 *
 * Threads:  any.   Blocks: until the next lock is found, as the rate allows; one connect_timeout_ms
 * for a node that does not answer.   Since: 0.1.
 */
HF_API hf_status hf_locks_next(hf_locks *locks, hf_lock_info *info, hf_view **view_out);

/** The progress of a walk, filled in by hf_locks_progress(). */
typedef struct hf_progress {
    /** sizeof(hf_progress) of the caller's header. */
    uint32_t size;
    uint32_t reserved;
    /** The number of locks returned by hf_locks_next(). */
    int64_t locks;
    /** The approximate number of keys seen; the number of keys of any kind; -1: unknown. */
    int64_t keys_seen, keys;
    /** The number of keys left out because the user has no permission for them. */
    int64_t refused;
    /** The cost: the number of commands sent to the nodes; the number of round trips; the total
     * time of the round trips, in the network and the servers, microseconds. */
    int64_t commands, round_trips, answer_us;
} hf_progress;

/**
 * Read the progress of the walk, even while hf_locks_next() is in progress. Sends nothing. If a
 * slot moves during the walk, all nodes are walked once more, and `keys` grows.
 *
 * @param[in,out] progress  Set progress->size first.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_locks_progress(hf_locks *locks, hf_progress *progress);

/**
 * End the walk. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_locks_close(hf_locks *locks);

/* ------------------------------------------------------------------ Hold */

/** The states of a hold. */
enum { HF_STATE_HELD = 1, HF_STATE_LOST = 2, HF_STATE_RELEASED = 3 };

/** The causes of a loss. */
enum {
    HF_CAUSE_NONE = 0,
    /** The lease ended, and renewal was off; or max_hold_ms has passed. */
    HF_CAUSE_EXPIRED = 1,
    /** The client could not renew the hold before its lease ended. */
    HF_CAUSE_UNREACHABLE = 2,
    /** The server no longer has the hold: it was broken, deleted, evicted or flushed. */
    HF_CAUSE_GONE = 3
};

/**
 * Release the hold. With the owner's last hold, the lock becomes free or is granted to the next
 * waiter. Locally the hold ends before the request is sent. The handle stays valid until
 * hf_hold_close().
 *
 * Before the time of hf_hold_keep_at_least() has passed, this function keeps the lock instead,
 * returns the statuses of hf_hold_keep(), and blocks up to three times as long as hf_hold_keep().
 *
 * @retval HF_OK        Released.
 * @retval HF_ENOTHELD  It was released before. Nothing was changed.
 * @retval HF_ELOST     It was lost before; another owner may have held the lock since. What
 *                      was left of it on the server was released.
 * @retval HF_EUNKNOWN  The answer was lost; the hold ends with its lease at the latest.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL   Not released. It is no longer renewed,
 *                      and ends with its lease, or earlier if a retry of the client's own thread
 *                      reaches the server.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_release(hf_hold *hold);

/**
 * Renew the hold: extend it to its whole lease, counted from now. Never shortens it.
 *
 * @retval HF_OK        It lasts at least one lease, counted from before this call, or until
 *                      max_hold_ms ends it.
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

/** For hf_hold_extend(): replace the remaining time, which may shorten the hold. */
#define HF_EXTEND_REPLACE 1u

/**
 * Extend the hold by duration_ms. With HF_EXTEND_REPLACE it lasts exactly duration_ms from now
 * instead, which may be shorter, and later renewals use duration_ms as its lease. Two extensions of
 * a hold at the same time both add to the time that was left before: the longer one counts. On a
 * quorum, holds that nest in each other last as long as the longest of them, but for max_hold.
 *
 * @param duration_ms  HF_LEASE_MIN to HF_LEASE_MAX; with HF_EXTEND_REPLACE also HF_NEVER.
 * @retval HF_EUNSUPPORTED   HF_NEVER, of a quorum. The hold is unchanged.
 * @retval HF_EINVAL, and every status of hf_hold_renew().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_extend(hf_hold *hold, int64_t duration_ms, uint32_t flags);

/**
 * Check with the server whether the lock is still held. Changes nothing there. If another program
 * has shortened the TTL of the lock's key, the hold ends locally with that TTL, and is renewed at
 * once if renewal is on.
 *
 * @retval  As hf_hold_renew().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_check(hf_hold *hold);

/**
 * Return the hold's fence (a fencing token): greater than that of every earlier hold of this name,
 * equal in nested holds of one owner, below 2^53. Pass it to the resource and let the resource
 * refuse smaller fences: this protects when all else fails.
 *
 * Simultaneous shared holds have different fences. So let the resource refuse a shared hold's fence
 * only if an exclusive hold had a greater one.
 *
 * @return  Positive; 0 if hold is NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_hold_fence(const hf_hold *hold);

/**
 * Count the masters of a quorum (`redis+quorum://`) that have the hold now. The hold stands
 * while a majority of them has it; the client asks a master that lacks it again.
 *
 * @param[out] masters_out  The number of masters: 1 without a quorum; may be NULL.
 * @return  The number of masters that have it; without a quorum 1 while it is held, else 0.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API size_t hf_hold_votes(const hf_hold *hold, size_t *masters_out);

/**
 * Return how long the hold is certain to last, less a margin for clock drift.
 *
 * @return  Milliseconds; HF_NEVER; 0 if it is no longer held.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_hold_remaining_ms(const hf_hold *hold);

/**
 * Return HF_STATE_HELD, HF_STATE_LOST or HF_STATE_RELEASED, as far as this process knows;
 * HF_STATE_RELEASED if hold is NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_hold_state(const hf_hold *hold);

/**
 * Return the cause of the hold's loss, HF_CAUSE_*; HF_CAUSE_NONE if it was not lost.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int hf_hold_cause(const hf_hold *hold);

/**
 * Return the hold's number, which its completions contain. Its client never reuses it.
 *
 * @return  Positive; 0 if hold is NULL.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_hold_number(const hf_hold *hold);

/**
 * Turn the hold into a token with which another process can continue to hold the lock: its name,
 * its owner, its hold id, its mode and its fence. In this process the hold ends without being
 * released. The lease is no longer renewed, so call hf_lock_adopt() before it ends. Any process
 * with the token can release the lock: keep it secret.
 *
 * @param[out] token      Receives the token's bytes.
 * @param capacity        The size of token; HF_TOKEN_MAX is enough.
 * @param[out] token_len_out  The token's length.
 * @retval HF_OK
 * @retval HF_EINVAL    The buffer is too small. The hold is unchanged.
 * @retval HF_EUNKNOWN  An hf_hold_extend() with HF_EXTEND_REPLACE is under way, or its answer was
 *                      lost: it may still shorten the lease. Or the answer of this call was lost.
 *                      The hold is unchanged.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL   Not handed over. The hold is unchanged.
 * @retval HF_EUNSUPPORTED   The servers are a quorum. The hold is unchanged.
 * @retval HF_ENOTHELD, HF_ELOST   It is not held.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never, but for a hold that was just acquired by waiting: one round trip,
 * connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_hold_hand_over(hf_hold *hold, void *token, size_t capacity,
                                   size_t *token_len_out);

/**
 * Keep the lock held for duration_ms, even if this client is closed or dies: no other owner gets it
 * until then. The hold of this handle ends without being released, is no longer renewed, and cannot
 * be released. For work that must not be repeated too soon.
 *
 * An explicit owner (hf_lock_open()) that acquires the lock again may nest in the kept hold, unless
 * the lock is not reentrant. Of nested holds, keep the outermost, as the last: the others stay
 * held.
 *
 * @param duration_ms   Counted from now, up to HF_LEASE_MAX; a value below HF_LEASE_MIN counts as
 *                      HF_LEASE_MIN. 0 releases the hold, also before the time of
 *                      hf_hold_keep_at_least() has passed.
 * @retval HF_OK        The lock stays held for duration_ms. The hold has ended.
 * @retval HF_EINVAL    The duration is out of bounds. The hold is unchanged.
 * @retval HF_ENOTHELD  It was released before. Nothing was changed.
 * @retval HF_ELOST     It is lost: its lease ended, or its key was taken away. Nothing is kept.
 * @retval HF_EUNKNOWN  The answer was lost, or another replacement of its lease is under way. The
 *                      hold is still held, for duration_ms; if the server has kept it, nothing
 *                      extends it. Call this function again, with the same duration or less, or
 *                      release the hold. As long as its handle is open, hf_client_close() asks for
 *                      it once more.
 * @retval HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL   Not kept; as after HF_EUNKNOWN. On a
 *                      quorum, hf_client_close() releases a hold that most masters refused
 *                      to keep.
 * @retval HF_ENOMEM    As after HF_EUNKNOWN.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: two round trips, connect_timeout_ms at most for each.   Since: 0.1.
 */
HF_API hf_status hf_hold_keep(hf_hold *hold, int64_t duration_ms);

/**
 * Make hf_hold_release() and hf_hold_release_start() leave the lock held until duration_ms after
 * this hold was acquired, if that time has not passed: they then do and return the same as
 * hf_hold_keep(), and hf_hold_release() makes up to three tries if an answer is lost.
 * For work that must not be done again too soon. Sends nothing.
 *
 * @param duration_ms   0 to HF_LEASE_MAX. 0: a release releases, as by default.
 * @retval HF_OK
 * @retval HF_EINVAL    The duration is out of bounds, or the handle is NULL.
 * @retval HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_keep_at_least(hf_hold *hold, int64_t duration_ms);

/** The maximum size of a token, in bytes. */
#define HF_TOKEN_MAX (HF_OWNER_MAX + HF_NAME_MAX + 64)

/**
 * Take over a hold that another process handed over. The hold is first renewed to the lock's lease,
 * because a deadline is valid on one host only. If the server has more time left, that time is not
 * cut, not even to max_hold_ms if this process dies.
 *
 * @param lock      A lock of the same name and mode; its lease_ms and renew apply from now on.
 * @param[out] hold_out  The hold, as from hf_lock_acquire_as().
 * @retval HF_OK
 * @retval HF_EINVAL    The bytes are not a token, or the token's hold has the other mode.
 * @retval HF_ELOST     Its lease ended before, or it was released.
 * @retval HF_EUNSUPPORTED   The servers are a quorum.
 * @retval HF_EUNKNOWN, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_ECLOSED, HF_EFORKED,
 *         HF_ENOMEM   Not adopted; the call may be repeated.
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_lock_adopt(hf_lock *lock, const void *token, size_t token_len,
                               hf_hold **hold_out);

/**
 * Close the handle without releasing the hold: if it is still held, it lasts until its lease ends,
 * and is no longer renewed unless it was left with the client (HF_ACQUIRE_KEEP). A keep that failed
 * (hf_hold_keep()) is not asked for again: close the client first. NULL is allowed.
 *
 * Threads:  any, once.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_hold_close(hf_hold *hold);

/* ----------------------------------------------------------- Completions */

/*
 * Operations without blocking: start an operation, and read its result from the client's completion
 * queue. The library never calls your code from another thread; watch hf_client_fd() in an event
 * loop or in your own thread.
 */

/** The kinds of completion. */
enum {
    /** The queue is empty. */
    HF_KIND_NONE = 0,
    /**
     * An hf_lock_acquire_start() or hf_once_begin_start() ended; if HF_OK, HF_EDONE,
     * HF_EFAILED, HF_EOUTCOME or HF_EMISMATCH, `hold`
     * belongs to the caller.
     */
    HF_KIND_ACQUIRE = 1,
    /** An hf_hold_release_start(), hf_hold_keep_start() or hf_once_finish_start() ended. */
    HF_KIND_RELEASE = 2,
    /** A hold was lost: see `hold_number` and `cause`. */
    HF_KIND_LOSS = 3,
    /** An hf_hold_renew_start(), _extend_start() or _check_start() ended. */
    HF_KIND_RENEWAL = 4,
    /**
     * Many acquires of one lock have timed out: see hf_client_options.alarm_timeouts. `timeouts` is
     * their number, `name` receives the lock's name, and the error message names the last holder.
     */
    HF_KIND_ALARM = 5,
    /**
     * With hf_client_options.trouble. Renewals begin to fail: status and message have the reason,
     * `holds` is the number of holds at risk, and `left_ms` the time until the first of them
     * is lost unless a renewal succeeds first. Status HF_OK: renewals work again. Between the two
     * reports, further failures are not reported, unless all holds at risk were lost or released
     * meanwhile.
     */
    HF_KIND_TROUBLE = 6,
    /**
     * With hf_client_options.trouble. Another server has taken over, and the message names it: the
     * new master behind Sentinel, the node of a cluster that now has the slots of `holds`
     * holds, or another server under the host's name. The client renews these holds there at once.
     * On a quorum: a minority of its masters does not renew, and the others have `holds` holds; or
     * all renew again. (HF_KIND_TROUBLE: fewer than a majority renew.)
     */
    HF_KIND_FAILOVER = 7
};

/** One completion; set size before hf_client_next(). */
typedef struct hf_completion {
    /** sizeof(hf_completion) of the caller's header. */
    uint32_t size;
    /** HF_KIND_*. */
    int32_t kind;
    /** The status that the blocking function would have returned; HF_ELOST for a loss, HF_ETIMEOUT
     * for an alarm; for trouble the reason why renewals fail. */
    int32_t status;
    /** HF_CAUSE_* for a loss. */
    int32_t cause;
    /** The caller's number of the operation; 0 for a loss, an alarm, trouble or a failover. */
    int64_t op;
    /** The number of the hold acquired, released or lost; 0 without one. */
    int64_t hold_number;
    /** HF_KIND_ACQUIRE with HF_OK, or an outcome of hf_once_begin_start(): the hold; close it with
     * hf_hold_close(). */
    hf_hold *hold;
    /** HF_KIND_ALARM: the number of acquires that timed out within the window. */
    int64_t timeouts;
    /**
     * HF_KIND_ALARM: receives the lock's name. The caller sets name to a buffer, and name_capacity
     * to its size; HF_NAME_MAX bytes are enough, and a longer name is truncated. NULL: the name is
     * not wanted.
     */
    char *name;
    size_t name_capacity;
    /** The full length of the name; 0 for other kinds. */
    size_t name_len;
    /** If status is not HF_OK: the error, as from the blocking function. HF_KIND_TROUBLE,
     * HF_KIND_FAILOVER: a description of the event, with any status. */
    hf_error error;
    /** HF_KIND_TROUBLE, HF_KIND_FAILOVER: the number of holds concerned. */
    int64_t holds;
    /** HF_KIND_TROUBLE: milliseconds until the first of them ends; 0 with HF_OK. */
    int64_t left_ms;
} hf_completion;

/**
 * Get the descriptor that is readable while the queue has completions for
 * hf_client_next(). From the first call on, the queue reports losses, alarms and trouble too.
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
 * Start hf_lock_acquire_as(). An HF_KIND_ACQUIRE completion follows if, and only if, this function
 * returns HF_OK: within the time that hf_lock_acquire_as() would block. With the replicas option,
 * or HF_ACQUIRE_WHOLE, it may take one connect_timeout_ms more; a client confirms 16 acquires at
 * once, and further acquires wait for their turn, and may take longer. If neither the call nor the
 * lock has an owner, the operation is its own owner: two acquires started by one thread exclude
 * each other.
 *
 * @param op       The caller's number for the operation, above 0; no other operation under way on
 *                 this client may have the same number (HF_EINVAL). The number may be reused when
 *                 the completion is on the queue.
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
 * Start hf_lock_acquire_all(). If, and only if, this function returns HF_OK, `count`
 * HF_KIND_ACQUIRE completions follow, all at once: for locks[i] the one with the number op + i.
 * Either each has HF_OK and its hold, or each has the same other status and error, and nothing is
 * held: they follow when the locks acquired before are released, or the server has not answered
 * within connect_timeout_ms. hf_op_cancel() with any of the numbers cancels all.
 *
 * @param op  The first of `count` numbers, which the caller uses for no other operation that is
 *            under way.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM  Nothing was started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_acquire_all_start(hf_lock *const *locks, size_t count, const void *owner,
                                           size_t owner_len, int64_t timeout_ms,
                                           const hf_acquire_options *const *options, int64_t op);

/**
 * Start hf_hold_release(). Locally the hold ends at once. An HF_KIND_RELEASE completion follows if,
 * and only if, this function returns HF_OK.
 *
 * @param op  The caller's number for the operation, above 0; no other operation under way on
 *            this client may have it.
 * @retval HF_OK        Started.
 * @retval HF_ENOTHELD  It was released before.
 * @retval HF_ELOST     It was to keep the lock, hf_hold_keep_at_least(), and is lost: it has ended.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_release_start(hf_hold *hold, int64_t op);

/**
 * Start hf_hold_renew(). An HF_KIND_RENEWAL completion follows if, and only if, this function
 * returns HF_OK.
 *
 * @param op  The caller's number for the operation, above 0; no other operation under way on
 *            this client may have it.
 * @retval HF_OK        Started.
 * @retval HF_ENOTHELD, HF_ELOST   It is not held.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_renew_start(hf_hold *hold, int64_t op);

/**
 * Start hf_hold_extend(); returns the same as hf_hold_renew_start(). If HF_EXTEND_REPLACE shortens
 * the hold, it is shorter locally at once.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_extend_start(hf_hold *hold, int64_t duration_ms, uint32_t flags,
                                      int64_t op);

/**
 * Start hf_hold_check(); returns the same as hf_hold_renew_start().
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_check_start(hf_hold *hold, int64_t op);

/**
 * Start hf_hold_keep(). An HF_KIND_RELEASE completion follows if, and only if, this function
 * returns HF_OK; the hold ends with a completion that has HF_OK.
 *
 * @param op  The caller's number for the operation, above 0; no other operation under way on
 *            this client may have it.
 * @retval HF_OK        Started.
 * @retval HF_ENOTHELD, HF_ELOST   It is not held.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_hold_keep_start(hf_hold *hold, int64_t duration_ms, int64_t op);

/**
 * Cancel a started acquire. Its completion still follows: HF_ECANCELED with nothing left behind, or
 * HF_OK with the hold if the lock was already acquired; if the acquire waits for replicas or
 * for its whole lease, after that wait.
 *
 * @retval HF_OK        Its completion follows, or is on the queue.
 * @retval HF_ENOTHELD  No such acquire is under way: its completion is on the queue, or was read.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_op_cancel(hf_client *client, int64_t op);

/* ------------------------------------------------------------------ Once */

/** The longest result or error, in bytes; the length of a fingerprint. */
#define HF_RESULT_MAX 16777216
#define HF_PRINT_LENGTH 32

/** The state of a call that is made once. */
enum {
    /** There is no record of it. */
    HF_ONCE_NONE = 0,
    /** It has begun, and its caller holds the lock. */
    HF_ONCE_RUNNING = 1,
    /** It has begun, and its caller no longer holds the lock: the outcome is unknown. */
    HF_ONCE_UNKNOWN = 2,
    /** It may be made again. */
    HF_ONCE_RETRY = 3,
    /** It is done, and its result is kept. */
    HF_ONCE_DONE = 4,
    /** It failed, and its error is kept. */
    HF_ONCE_FAILED = 5
};

/**
 * Make a call only once for all its callers, on all hosts: for example a charge or a report. The
 * first caller gets HF_OK, makes the call, and passes its result to hf_once_finish(). All other
 * callers wait, and get HF_EDONE with that result without taking a turn of the lock; so do later
 * callers, until the result expires.
 *
 * If the first caller dies, the next caller makes the call again when the lease ends. With
 * HF_ACQUIRE_AT_MOST_ONCE it does not: the first caller calls hf_once_mark() before its call,
 * and if it dies after that, all other callers get HF_EOUTCOME until the call is settled
 * (hf_once_settle()).
 *
 * The call and hf_lock_acquire() use the same lock: while it is held through hf_lock_acquire(), the
 * call cannot start, and vice versa. A call never nests, not even in a hold of its own owner. Only
 * an explicit owner (hf_lock_open()) of a running call can acquire the lock again, and nests in the
 * call.
 *
 * @param timeout_ms  As hf_lock_acquire(). 0 does not wait: HF_EBUSY.
 * @param options     NULL for the defaults.
 * @param print       A fingerprint of the call's arguments: HF_PRINT_LENGTH bytes, for example
 * their SHA-256. A record with another fingerprint is refused. NULL: none.
 * @param print_len   HF_PRINT_LENGTH; 0 if print is NULL.
 * @param[out] hold_out  HF_OK: the hold. HF_EDONE, HF_EFAILED, HF_EOUTCOME and HF_EMISMATCH: a
 *                       handle for hf_once_outcome(), which holds nothing. Close either with
 *                       hf_hold_close(). Otherwise NULL.
 * @retval HF_OK         The caller must make the call.
 * @retval HF_EDONE      The call is done.
 * @retval HF_EFAILED    The call failed, with an error that is kept.
 * @retval HF_EOUTCOME   The call began, and its outcome is unknown.
 * @retval HF_EMISMATCH  The record belongs to other arguments, or to the other mode.
 * @retval HF_EUNSUPPORTED  The servers are a quorum.
 * @retval others        As hf_lock_acquire_as().
 *
 * Threads:  any.   Blocks: as hf_lock_acquire().   Since: 0.1.
 */
HF_API hf_status hf_once_begin(hf_lock *lock, int64_t timeout_ms, const hf_acquire_options *options,
                               const void *print, size_t print_len, hf_hold **hold_out);

/**
 * Record on the server that the call begins now. Make the call only after HF_OK; after any
 * other status the hold is released, and the call counts as not made.
 *
 * If the lock asks for replicas, this waits until they have the record.
 *
 * @param hold        From hf_once_begin() with HF_ACQUIRE_AT_MOST_ONCE.
 * @param unknown_ms  For how long an unknown outcome is kept, 10000 to HF_LEASE_MAX; HF_NEVER:
 * until it is settled. Counts from HF_ONCE_UNKNOWN, or, if the hold ends without a report,
 * from the first HF_EOUTCOME, so that a long call is never made twice in silence. When it expires
 * the next caller makes the call.
 * @param note        Any bytes for the caller that settles an unknown outcome; NULL only if
 * note_len is 0.
 * @param note_len    Up to HF_NOTE_MAX.
 * @retval HF_OK        The call has begun.
 * @retval HF_EINVAL    An argument is wrong. The lock is still held.
 * @retval HF_ELOST     The hold was lost before. Call hf_once_begin() again.
 * @retval HF_ENOTHELD, HF_ECLOSED   The hold was released, or the client was closed. The call has
 *                      not begun.
 * @retval HF_EUNKNOWN, HF_ECONNECT, HF_ESERVER, HF_EREPLICAS   The client goes on withdrawing the
 *                      record in the background.
 * @retval HF_EDONE, HF_EFAILED, HF_EOUTCOME, HF_EMISMATCH   Another caller was faster, after this
 *                      hold was lost: as hf_once_begin().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_once_mark(hf_hold *hold, int64_t unknown_ms, const void *note, size_t note_len);

/**
 * Report how the call ended, and release the hold. With HF_ONCE_DONE or HF_ONCE_FAILED, all waiters
 * and later callers get the result or error until it expires. After hf_once_mark() it is kept
 * even if the hold was lost meanwhile, unless the call was settled.
 *
 * If no answer arrives, or after hf_once_mark() the server refuses to keep the result, the client
 * goes on in the background, until it is closed.
 *
 * @param state    HF_ONCE_DONE or HF_ONCE_FAILED; HF_ONCE_UNKNOWN: the caller does not know (the
 *                 bytes give the reason, and become the note); HF_ONCE_RETRY: it was not made.
 * @param result      Any bytes; NULL only if result_len is 0. The library copies them.
 * @param result_len  Up to HF_RESULT_MAX; up to HF_NOTE_MAX for HF_ONCE_UNKNOWN.
 * @param ttl_ms   How long a result or error is kept, 10000 (so that no waiter misses it) to
 *                 HF_LEASE_MAX. 0 for the other states.
 * @retval HF_OK        Released, and kept.
 * @retval HF_EINVAL    An argument is wrong, the hold is shared, or a result or an error is given
 *                      for a call at most once and hf_once_mark() was not called. The lock is still
 *                      held.
 * @retval HF_EUNSUPPORTED   The servers are a quorum. The lock is still held.
 * @retval HF_ENOMEM    The lock is still held: try again, or release it.
 * @retval HF_ESERVER   Released, but the server did not keep the result: its memory is full, or the
 *                      user lacks a permission.
 * @retval HF_ESETTLED  Not kept: the call was settled meanwhile, its unknown outcome expired, or
 * another caller made it.
 * @retval HF_ELOST     Not kept: the hold was lost, and hf_once_mark() was not called.
 * @retval others       As hf_hold_release().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_once_finish(hf_hold *hold, int32_t state, const void *result, size_t result_len,
                                int64_t ttl_ms);

/**
 * Return the result after HF_EDONE, or the error after HF_EFAILED.
 *
 * @param[out] result_len_out  Its length; may be NULL.
 * @return  The bytes, followed by a NUL, valid until hf_hold_close(); NULL if the handle has none.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API const void *hf_hold_result(const hf_hold *hold, size_t *result_len_out);

/** The record of a call, filled in by hf_once_outcome(). */
typedef struct hf_once_info {
    /** sizeof(hf_once_info) of the caller's header. */
    uint32_t size;
    /** HF_ONCE_NONE, HF_ONCE_RUNNING and so on. The rest is 0 for HF_ONCE_NONE. */
    int32_t state;
    /** 1 if the call is made at most once. */
    int32_t at_most_once;
    /** 1 if the record has a fingerprint. */
    int32_t printed;
    /** The fence of the hold that made the call, for hf_once_settle(). */
    int64_t fence;
    /** The time at which it reached this state: Unix time by the server's clock, milliseconds. */
    int64_t since_ms;
    /** For how long the record stays, milliseconds; HF_NEVER. While the time of an unknown outcome
     * does not run yet, that whole time. */
    int64_t ttl_ms;
    /** The length of its result or error, bytes. */
    int64_t result_len;
    /** The owner of the hold that made the call, or the settler; and the note. The bytes belong to
     * the handle. */
    const void *owner;
    size_t owner_len;
    const void *note;
    size_t note_len;
} hf_once_info;

/**
 * Read the record of the call that a handle has, after hf_once_look(), or HF_EDONE, HF_EFAILED,
 * HF_EOUTCOME or HF_EMISMATCH.
 *
 * @param[in,out] info  Set info->size first.
 * @retval HF_OK
 * @retval HF_EINVAL  A pointer is NULL, or the size is not set.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_once_outcome(const hf_hold *hold, hf_once_info *info);

/**
 * Read the record of the call of this name, as the view found it, without its result or error.
 *
 * @param[in,out] info  Set info->size first. Its bytes belong to the view.
 * @retval HF_OK      The state may be HF_ONCE_NONE.
 * @retval HF_EINVAL  A pointer is NULL, or the size is not set.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_view_once(const hf_view *view, hf_once_info *info);

/**
 * Read the record of the call of this name, with its result or error. Changes nothing.
 *
 * @param[out] hold_out  A handle for hf_once_outcome() and hf_hold_result(), which holds nothing.
 *                       Close it with hf_hold_close().
 * @retval HF_OK      hf_once_outcome() has the answer, which may be HF_ONCE_NONE.
 * @retval HF_EUNSUPPORTED  The servers are a quorum.
 * @retval HF_EINVAL, HF_ECONNECT, HF_EAUTH, HF_ESERVER, HF_EPROTOCOL, HF_ECLOSED, HF_EFORKED,
 *         HF_ENOMEM
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_once_look(hf_lock *lock, hf_hold **hold_out);

/**
 * For hf_once_settle(): settle the call even while it is in progress, and end its hold; replace
 * a result or error that is kept.
 */
#define HF_SETTLE_FORCE 1u

/**
 * Settle a call whose outcome is unknown, or forget a record.
 *
 * @param state   HF_ONCE_DONE or HF_ONCE_FAILED: keep this result or error. HF_ONCE_RETRY: the call
 * may be made again; until then its caller's late result is still kept. HF_ONCE_NONE: forget
 * the record, even a result; the next caller makes the call.
 * @param fence   hf_once_info.fence of the record that was looked at. Another record is left alone.
 * @param flags   0 or HF_SETTLE_FORCE.
 * @param result      The result or error; NULL only if result_len is 0.
 * @param result_len  Up to HF_RESULT_MAX.
 * @param ttl_ms  As for hf_once_finish(). 0 for HF_ONCE_RETRY and HF_ONCE_NONE.
 * @param note    Any bytes; NULL only if note_len is 0.
 * @param note_len  Up to HF_NOTE_MAX.
 * @retval HF_OK
 * @retval HF_ENOTHELD  There is no record with that fence.
 * @retval HF_EBUSY     The call is in progress. Nothing was done.
 * @retval HF_ESETTLED  The call is done or settled already. Nothing was done.
 * @retval HF_EUNSUPPORTED  The servers are a quorum.
 * @retval others       As hf_lock_break().
 *
 * Threads:  any.   Blocks: one round trip, connect_timeout_ms at most.   Since: 0.1.
 */
HF_API hf_status hf_once_settle(hf_lock *lock, int32_t state, int64_t fence, uint32_t flags,
                                const void *result, size_t result_len, int64_t ttl_ms,
                                const void *note, size_t note_len);

/**
 * Start hf_once_begin(). An HF_KIND_ACQUIRE completion follows if, and only if, this function
 * returns HF_OK; hf_op_cancel() cancels the operation.
 *
 * @param op  The caller's number for the operation, as for hf_lock_acquire_start().
 * @retval HF_OK  Started.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_once_begin_start(hf_lock *lock, int64_t timeout_ms,
                                     const hf_acquire_options *options, const void *print,
                                     size_t print_len, int64_t op);

/**
 * Start hf_once_finish(). An HF_KIND_RELEASE completion follows if, and only if, this function
 * returns HF_OK; and only then the hold ends.
 *
 * @retval HF_OK  Started.
 * @retval HF_ENOTHELD, HF_EINVAL, HF_ECLOSED, HF_EFORKED, HF_ENOMEM   Not started.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_once_finish_start(hf_hold *hold, int32_t state, const void *result,
                                      size_t result_len, int64_t ttl_ms, int64_t op);

/* ---------------------------------------------------------- For bindings */

/*
 * For languages whose objects wrap these handles: their threads or tasks are the owners, their
 * runtime runs the signal handlers, and their garbage collector finds forgotten objects. A C
 * program does not need these functions.
 */

/**
 * Close the client without releasing its holds; each ends with its lease. For
 * finalizers, which must not end a section that may still be running.
 *
 * Threads:  any, once, instead of hf_client_close().   Blocks: never.   Since: 0.1.
 */
HF_API void hf_client_abandon(hf_client *client);

/**
 * Write the owner string for the thread, task or operation `serial` of this client:
 * `<client name>@<host>/<pid>:<32 hex digits of the client>:<kind><serial>`. For languages whose
 * threads or tasks are not the system's; pass it to hf_lock_acquire_as() and hf_lock_release_as().
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

/**
 * Return whether a signal should end the wait of the calling thread. 0: not now; above 0: yes;
 * below 0: never on this thread; the function is not called again during this wait.
 */
typedef int (*hf_interrupt)(void *context);

/**
 * Call `check` on waiting threads after a signal, and every 50 ms in case one arrived just before
 * the wait. A language can thus run its signal handlers without losing its place in the queue. No
 * mutex of the client is held during the call. A positive result ends the wait with HF_EINTR, and
 * nothing is held.
 *
 * @param check    NULL for no check, the default.
 * @param context  Passed to `check` at each call; belongs to the caller.
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any; set it before the first wait.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_set_interrupt(hf_client *client, hf_interrupt check, void *context);

/**
 * Count the valid holds of the handle's mode that the owner left with this client: how often
 * hf_lock_release_as() would succeed.
 *
 * @param owner  NULL for the lock's owner.
 * @return  0 or more; 0 on any error.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API int64_t hf_lock_count_as(const hf_lock *lock, const void *owner, size_t owner_len);

/**
 * Get the hold that hf_lock_release_as() would release next, even if it is lost: the newest
 * of the holds that the owner left with the client, or, of a lock that is not reentrant, the
 * calling thread's newest.
 *
 * @param owner  NULL for the lock's owner.
 * @param[out] hold_out  A new handle of that hold; close it with hf_hold_close().
 * @retval HF_OK
 * @retval HF_ENOTHELD  The owner left no hold.
 * @retval HF_EINVAL, HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_lock_current_as(hf_lock *lock, const void *owner, size_t owner_len,
                                    hf_hold **hold_out);

/**
 * Find a lock on which an owner left a hold with this client. For languages that notice the end of
 * a thread: the client may continue to renew the thread's holds, and no other thread releases them.
 *
 * @param owner         As given to hf_lock_acquire_as().
 * @param[out] name     Receives the name of one such lock.
 * @param capacity      The size of name; a name has HF_NAME_MAX bytes at most.
 * @param[out] name_len_out  The name's length.
 * @retval HF_OK        The owner left at least one hold.
 * @retval HF_ENOTHELD  The owner left no hold.
 * @retval HF_EINVAL    A pointer is NULL, or the buffer is too small.
 * @retval HF_ECLOSED, HF_EFORKED
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_client_kept(hf_client *client, const void *owner, size_t owner_len, void *name,
                                size_t capacity, size_t *name_len_out);

/**
 * A brake, which another thread pulls to end a call. While a thread has a brake, a pull ends:
 *
 * - an acquire, at any moment, even while it waits for the lock or for a silent server:
 *   with HF_ECANCELED. Nothing is held; what it left on the server is undone in the background.
 *   The same is true of hf_lock_acquire_all() and hf_once_begin(). A pull does not end the wait
 *   for replicas or the request of HF_ACQUIRE_WHOLE.
 * - any other request, which is sent once, and only if a connection to the server is open and free
 *   at that moment. The call fails: with HF_ECONNECT if nothing was sent, for example
 *   because no connection was free; with HF_EUNKNOWN if the server may have executed the request.
 *   A request that waits for replicas is not sent at all.
 *
 * A pull does not end the requests of hf_client_ping(), hf_client_survey() and hf_locks_next(), or
 * those to several masters but for an acquire's: they last as they do without a brake.
 */
typedef struct hf_brake hf_brake;

/**
 * Make a brake. A brake can be used for any number of calls; once pulled, it cannot be reset.
 *
 * @param[out] brake_out  Close it with hf_brake_close().
 * @retval HF_OK
 * @retval HF_EINVAL, HF_ENOMEM
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API hf_status hf_brake_open(hf_brake **brake_out);

/**
 * Close the brake. No thread may have it set, and no pull may be under way. NULL does nothing.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_brake_close(hf_brake *brake);

/**
 * Set the brake of the calling thread. NULL removes it: do so after the call.
 *
 * @param brake  One thread at a time may have it.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_brake_set(hf_brake *brake);

/**
 * End the call that is under way with this brake at once, and each later call as it begins. NULL
 * does nothing.
 *
 * Threads:  any.   Blocks: never.   Since: 0.1.
 */
HF_API void hf_brake_pull(hf_brake *brake);

#ifdef __cplusplus
}
#endif

#endif
