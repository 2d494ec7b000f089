/*
 * The masters of a quorum, as log-ins find them: the run of the server, its uptime and its clock,
 * and the list of masters that other clients use. Any thread may call these functions; unless a
 * comment says otherwise, the caller may hold any other mutex.
 */
#ifndef HF_MEMBER_H
#define HF_MEMBER_H

#include <pthread.h>

#include "base/util.h"

/* An answer that took longer says nothing about the way or the clocks: this process may have stood
 * still before the send. */
#define HF_TRIP_MAX_MS 1000

/* How many masters a quorum has, and for how long it waits for a master that has restarted. */
#define HF_MASTERS_MIN 3
#define HF_MASTERS_MAX 9
#define HF_QUARANTINE_MS 30000

#define HF_RUN_ID_MAX 63

/* A run of a server, from INFO. */
typedef struct hf_run {
    char id[HF_RUN_ID_MAX + 1];
    int64_t uptime_s;
    int64_t server_us; /* the server's time; 0: not reported */
} hf_run;

typedef struct hf_member {
    char shown[128];
    hf_run run;                     /* the last run found; an empty id: none was */
    char before[HF_RUN_ID_MAX + 1]; /* the run before that one */
    int64_t started_at;             /* the latest time of its start, on hf_now()'s clock */
    int64_t seen_at;                /* when it last answered */
    int64_t pair_sent;              /* the send time of a request */
    int64_t pair_server;            /* the server's time (us) in the answer to it; 0: not known */
    bool lets_in;                   /* its list, if it has one, allows this client */
} hf_member;

typedef struct hf_members {
    pthread_mutex_t mutex; /* guards `of`, except its constant members */
    int references;        /* of the client, and of each address of a member */
    size_t count;
    int64_t quarantine_ms;
    char *list; /* as stored in the key */
    hf_member of[HF_MASTERS_MAX];
} hf_members;

/* The key that stores the list of masters for all clients, and the quarantine. */
#define HF_MEMBERS_KEY "hf1:members"

/* Make the members. The names are `host:port`. NULL: no memory. */
hf_members *hf_members_new(const char *const *names, size_t count, int64_t quarantine_ms);
hf_members *hf_members_keep(hf_members *members);
void hf_members_drop(hf_members *members);

/* Pure: read an answer of INFO. False: it lacks the run or its uptime. */
bool hf_run_read(const char *info, hf_run *run);
/* Pure: return whether clients of both lists may work at once. They may if the lists are equal, or
 * if one has one master more than the other and the quarantines are the same: then any two
 * majorities share a master. */
bool hf_members_agree(const char *one, const char *other);

/* Take the run that a log-in at that master has found, by a request sent at sent_at. HF_EINVAL: the
 * server stands in the list twice, or several servers share one name. HF_ECONNECT: a later request
 * may have found another run. */
hf_status hf_member_met(hf_members *members, size_t at, const hf_run *run, int64_t sent_at);
/* Take the list that a log-in has found there; the client's own if there was none. HF_EINVAL. */
hf_status hf_member_lists(hf_members *members, size_t at, const char *found);
/* Return whether all masters let this client in, each as a separate server. */
bool hf_members_let_in(hf_members *members);
/* Note that the master has answered a request sent at sent_at, with the server's time (us), or
 * 0. */
void hf_member_answered(hf_members *members, size_t at, int64_t sent_at, int64_t server_us);

/* Return how long the master is in quarantine, for a request sent at sent_at. 0: it is not, or no
 * log-in has reached it yet. */
int64_t hf_member_young_ms(hf_members *members, size_t at, int64_t sent_at);
/* Return the time now on the clock of the masters that is furthest ahead (us); 0: none is known. */
int64_t hf_members_clock(hf_members *members, int64_t now);

#endif
