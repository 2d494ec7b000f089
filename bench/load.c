/*
 * Much at once: 10,000 locks held by one client, 10,000 waiters on one key, 1,000 clients that take
 * turns, and all kinds of calls for some minutes. Fails if memory or descriptors have grown from
 * before to after.
 *
 *     load URL MINUTES
 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCKS 10000
#define WAITERS 10000
#define CLIENTS 1000

static const char *url;
static double minutes;

static void check_completion(const hf_completion *completion) {
    if (completion->status != HF_OK)
        errx(1, "%s: %s", hf_status_name(completion->status), completion->error.message);
}

static double cpu(void) {
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Return the resident memory, in kB. */
static long memory(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        err(1, "/proc/self/statm");
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    if (!folder)
        err(1, "/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 3; /* without this descriptor, . and .. */
}

static hf_client *open_client(void) {
    hf_client *client;

    check(hf_client_open(url, NULL, &client));
    return client;
}

static hf_lock *open_lock(hf_client *client, const char *name, int64_t lease_ms) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = lease_ms, .renew = HF_ON};
    hf_lock *lock;

    check(hf_lock_open(client, name, strlen(name), NULL, 0, &options, &lock));
    return lock;
}

static void hold_many(void) {
    static hf_hold *holds[LOCKS];
    hf_client *client = open_client();
    long before = memory();
    char name[32];

    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "load:%d", i);
        hf_lock *lock = open_lock(client, name, 6000);
        check(hf_lock_acquire(lock, 0, &holds[i]));
        hf_lock_close(lock);
    }
    long held = memory();
    double since = now(), used = cpu();
    sleep(10);
    double share = 100 * (cpu() - used) / (now() - since);
    for (int i = 0; i < LOCKS; i++) {
        check(hf_hold_release(holds[i]));
        hf_hold_close(holds[i]);
    }
    printf("%d locks held by one client: %.0f bytes each, renewed with %.1f %% of a core\n", LOCKS,
           1024.0 * (double)(held - before) / LOCKS, share);
    hf_client_close(client);
}

static void queue_many(void) {
    hf_client *client = open_client(), *other = open_client();
    hf_lock *lock = open_lock(client, "load", 30000), *theirs = open_lock(other, "load", 30000);
    int fd = hf_client_fd(client), left = WAITERS, lost = 0;
    hf_hold *hold;
    hf_stats stats = {.size = sizeof stats};
    long before = memory();

    check(hf_lock_acquire(theirs, 0, &hold));
    double began = now();
    for (int i = 1; i <= WAITERS; i++)
        check(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, i));
    hf_lock_info info = {.size = sizeof info};
    do {
        poll(NULL, 0, 10);
        check(hf_lock_inspect(lock, 0, &info, NULL));
    } while (info.waiters < WAITERS);
    double queued = now() - began;
    long waiting = memory();
    began = now();
    check(hf_hold_release(hold));
    while (left > 0) {
        hf_completion completion = {.size = sizeof completion};
        check(hf_client_next(client, &completion));
        if (completion.kind == HF_KIND_NONE) {
            poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1000);
        } else if (completion.kind == HF_KIND_ACQUIRE) {
            check_completion(&completion);
            check(hf_hold_release_start(completion.hold, completion.op));
            hf_hold_close(completion.hold);
        } else if (completion.kind == HF_KIND_RELEASE) {
            if (completion.status == HF_ELOST) /* this program stood still for 3 s */
                lost++;
            else
                check_completion(&completion);
            left--;
        }
    }
    double took = now() - began;
    check(hf_client_stats(client, &stats));
    printf("%d waiters on one key: queued in %.1f s, %.0f bytes each; %.0f handoffs a second\n",
           WAITERS, queued, 1024.0 * (double)(waiting - before) / WAITERS, WAITERS / took);
    if (lost > 5)
        errx(1, "%d of these holds were lost", lost);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
}

static void open_many(void) {
    static hf_client *clients[CLIENTS];
    static hf_lock *locks[CLIENTS];
    struct rlimit limit;
    long before = memory();
    int open_before = descriptors();

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    double began = now();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_client();
        locks[i] = open_lock(clients[i], "load", 10000);
    }
    double opened = now() - began;
    began = now();
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < CLIENTS; i++) {
            hf_hold *hold;
            check(hf_lock_acquire(locks[i], 5000, &hold));
            check(hf_hold_release(hold));
            hf_hold_close(hold);
        }
    double took = now() - began;
    printf("%d clients: opened in %.1f s, %.0f kB and %.1f descriptors each; %.0f pairs a second "
           "in turn\n",
           CLIENTS, opened, (double)(memory() - before) / CLIENTS,
           (double)(descriptors() - open_before) / CLIENTS, 5 * CLIENTS / took);
    for (int i = 0; i < CLIENTS; i++) {
        hf_lock_close(locks[i]);
        hf_client_close(clients[i]);
    }
}

#define SETTLED 3000

/* Make all kinds of calls, of which some time out, are cancelled or are lost. */
static void soak(void) {
    hf_client *client = open_client(), *other = open_client();
    long first = 0;
    int open_first = 0, fd = hf_client_fd(client);
    int64_t op = 0, turns = 0;
    double began = now();

    for (int64_t round = 0; now() - began < 60 * minutes || round <= SETTLED + 1000; round++) {
        char name[32];
        hf_hold *hold, *none;
        snprintf(name, sizeof name, "soak:%d", (int)(round % 5000));
        hf_lock *lock = open_lock(client, name, 1000), *theirs = open_lock(other, name, 1000);
        check(hf_lock_acquire(lock, 1000, &hold));
        if (hf_lock_acquire(theirs, (int64_t)(round % 100 == 0), &none) == HF_OK)
            errx(1, "%s was got twice", name);
        check(hf_lock_acquire_start(lock, "another", 7, HF_FOREVER, NULL, ++op));
        if (round % 3 == 0)
            hf_op_cancel(client, op);
        check(hf_hold_renew(hold));
        check(hf_hold_release(hold));
        hf_hold_close(hold);
        for (bool under_way = true; under_way;) {
            hf_completion completion = {.size = sizeof completion};
            check(hf_client_next(client, &completion));
            if (completion.kind == HF_KIND_NONE)
                poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1000);
            if (completion.kind == HF_KIND_ACQUIRE && completion.status == HF_OK) {
                check(hf_hold_release(completion.hold));
                hf_hold_close(completion.hold);
            }
            under_way = completion.kind != HF_KIND_ACQUIRE;
        }
        hf_lock_close(lock);
        hf_lock_close(theirs);
        turns++;
        if (round == SETTLED) { /* tables and pools have their final size */
            first = memory();
            open_first = descriptors();
        }
    }
    long last = memory();
    bool grew = last > first + 1000 || descriptors() > open_first + 2;
    printf("%.1f minutes of everything, %" PRId64 " rounds: memory %ld kB, then %ld kB; "
           "descriptors %d, then %d\n",
           (now() - began) / 60, turns, first, last, open_first, descriptors());
    hf_client_close(client);
    hf_client_close(other);
    if (grew)
        errx(1, "memory or descriptors grew");
}

/* Run the work in a separate process, with memory of its own. */
static void apart(void (*work)(void)) {
    int status;
    pid_t pid = fork();

    if (pid < 0)
        err(1, "fork");
    if (pid == 0) {
        work();
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3)
        errx(2, "usage: load URL MINUTES");
    url = argv[1];
    minutes = atof(argv[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    apart(hold_many);
    apart(queue_many);
    apart(open_many);
    apart(soak);
    return 0;
}
