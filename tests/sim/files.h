/* Descriptors of the simulated system: events, timers, sockets. */
#ifndef SIM_FILES_H
#define SIM_FILES_H

#include "world.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Bytes on their way to a socket, or the end of its connection. */
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
    sim_file *next, *previous; /* the list of all files */
    sim_kind kind;
    int number;
    int descriptors; /* that refer to it */
    int pending;     /* events that refer to it; freed when both counts are 0 */
    bool cut;        /* its host is gone: it is closed silently */
    bool nonblock;
    sim_watch *watches;

    uint64_t count; /* an eventfd's value; how often a timer has fired */
    int64_t due;    /* a timer's, in the world's time */
    uint64_t set;

    /* Of a listener. */
    sim_file **backlog;
    size_t waiting, most;
    sim_server *server;

    /* Of a socket. */
    sim_address_of local, remote;
    bool bound, connecting, open, dead; /* dead: no byte gets in or out any more */
    bool shut_in, shut_out, ended;      /* ended: the peer has sent its end */
    int error;
    sim_file *peer;
    char *data;
    size_t begin, end, room;
    sim_segment *first, *last;             /* on their way to this socket */
    bool arriving;                         /* an event for the first segment is pending */
    bool hears_later;                      /* an event that lets the server read is pending */
    int64_t began;                         /* when it began to connect */
    int64_t latest;                        /* arrival of the last segment */
    size_t under_way;                      /* bytes sent that the peer has not read */
    int64_t receive_ns, send_ns, alive_ns; /* socket options; 0: not set */
    void *service_peer;                    /* the server's object; NULL: not accepted */
};

sim_file *sim_file_new(sim_kind kind);
void sim_listen_here(sim_file *file, size_t most);
short sim_file_ready(const sim_file *file, short events);
void sim_file_notify(sim_file *file);
void sim_timer_arm(sim_file *timer, int64_t due);

sim_file *sim_listener_at(const sim_address_of *address);
bool sim_listener_add(sim_file *listener);
/* Return 0 or an errno. */
int sim_connect_to(sim_file *socket, const sim_address_of *address);
/* Connect two sockets of one host. */
void sim_pair(sim_file *a, sim_file *b);
size_t sim_send_bytes(sim_file *socket, const void *bytes, size_t length);
size_t sim_take_bytes(sim_file *socket, void *bytes, size_t length, bool peek);
void sim_shut_socket(sim_file *socket, bool in, bool out);
void sim_disconnect(sim_file *connection);
bool sim_names_work(void);
/* Return the host to which the name of `host` leads. */
int sim_named(int host);
extern int sim_ephemeral;

#endif
