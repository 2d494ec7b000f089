/* Descriptors of the simulated system: events, timers, sockets. */
#ifndef SIM_FILES_H
#define SIM_FILES_H

#include "world.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A run of bytes on its way to a socket, or how it ends. */
typedef struct sim_segment {
    struct sim_segment *next;
    int64_t at;
    enum { SIM_DATA, SIM_FIN, SIM_RESET } kind;
    size_t length;
    char bytes[];
} sim_segment;

typedef struct sim_address_of {
    int host, port;
    char path[108]; /* or empty */
} sim_address_of;

typedef enum { SIM_EVENT, SIM_TIMER, SIM_SOCKET, SIM_LISTENER } sim_kind;

struct sim_file {
    sim_file *next, *previous; /* of all */
    sim_kind kind;
    int number;
    int descriptors; /* that name it */
    int pending;     /* events that name it; it goes with the last of both */
    bool cut;        /* its host is gone: it is closed without a word */
    bool nonblock;
    sim_watch *watches;

    uint64_t count; /* of an event; of a timer, how often it has fired */
    int64_t due;    /* of a timer, in the world's time */
    uint64_t set;

    /* A listener's. */
    sim_file **backlog;
    size_t waiting, most;
    sim_server *server;

    /* A socket's. */
    sim_address_of local, remote;
    bool bound, connecting, open, dead; /* dead: nothing gets in or out any more */
    bool shut_in, shut_out, ended;      /* ended: the other end has said so */
    int error;
    sim_file *peer;
    char *data;
    size_t begin, end, room;
    sim_segment *first, *last;             /* on their way here */
    bool arriving;                         /* an event for the first of them is under way */
    bool hears_later;                      /* an event for the server to hear it is */
    int64_t began;                         /* connecting */
    int64_t latest;                        /* that the last of them arrives */
    size_t under_way;                      /* bytes of ours that the other end has not read */
    int64_t receive_ns, send_ns, alive_ns; /* its options; 0: none */
    void *service_peer;                    /* the server's, if it has accepted it */
};

sim_file *sim_file_new(sim_kind kind);
void sim_listen_here(sim_file *file, size_t most);
short sim_file_ready(const sim_file *file, short events);
void sim_file_notify(sim_file *file);
void sim_timer_arm(sim_file *timer, int64_t due);

sim_file *sim_listener_at(const sim_address_of *address);
bool sim_listener_add(sim_file *listener);
/* 0, or an errno. */
int sim_connect_to(sim_file *socket, const sim_address_of *address);
/* Join two sockets of one host. */
void sim_pair(sim_file *a, sim_file *b);
size_t sim_send_bytes(sim_file *socket, const void *bytes, size_t length);
size_t sim_take_bytes(sim_file *socket, void *bytes, size_t length, bool peek);
void sim_shut_socket(sim_file *socket, bool in, bool out);
void sim_disconnect(sim_file *connection);
bool sim_names_work(void);
/* The host to which the name of that host leads. */
int sim_named(int host);
extern int sim_ephemeral;

#endif
