/* Sockets and the network between hosts, events and timers. */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 64, WINDOW = 256 * 1024 };

struct sim_server {
    sim_server *next;
    char name[24];
    int host, port;
    sim_process *process; /* it stands for the server */
    const sim_service *service;
    void *self;
    sim_file *listeners[2];
    bool up;
    int64_t busy_until;
    void (*killed)(void *self);
};

static sim_file *files;
static sim_server *servers;
static sim_file *listeners[256];
static size_t listener_count;
static int file_numbers;
static bool ways_shut[HOSTS][HOSTS];
static int64_t latencies[HOSTS][HOSTS];
static bool names_work;
static int leads_to[HOSTS]; /* the host to which a name leads instead; or 0 */
int sim_ephemeral;

/* ------------------------------------------------------------------ Files */

sim_file *sim_file_new(sim_kind kind) {
    sim_file *file = calloc(1, sizeof *file);
    file->next = files;
    if (files != NULL)
        files->previous = file;
    file->kind = kind;
    file->number = ++file_numbers;
    return files = file;
}

static void drop_segments(sim_file *file) {
    while (file->first != NULL) {
        sim_segment *gone = file->first;
        file->first = gone->next;
        free(gone);
    }
    file->last = NULL;
}

static void drop_file(sim_file *file) {
    drop_segments(file);
    for (sim_watch *w = file->watches, *next; w != NULL; w = next) {
        next = w->next;
        free(w);
    }
    if (file->peer != NULL)
        file->peer->peer = NULL;
    if (file->next != NULL)
        file->next->previous = file->previous;
    if (file->previous != NULL)
        file->previous->next = file->next;
    else
        files = file->next;
    free(file->backlog);
    free(file->data);
    free(file);
}

/* Free the file if nothing refers to it, and no segment is on its way to it. */
static void drop_if_over(sim_file *file) {
    if (file->descriptors == 0 && file->pending == 0 && file->service_peer == NULL &&
        file->watches == NULL && file->first == NULL && !file->open && !file->connecting)
        drop_file(file);
}

/* Call the function at that time; the function must end with over(). */
static void later(int64_t at, void (*call)(void *), sim_file *file) {
    file->pending++;
    sim_at(at, call, file);
}
static void over(sim_file *file) {
    file->pending--;
    drop_if_over(file);
}

static void over_later(void *file) { over(file); }

sim_file *sim_file_share(sim_file *file) {
    file->descriptors++;
    return file;
}

void sim_watch_file(sim_file *file) {
    for (sim_watch *w = file->watches; w != NULL; w = w->next)
        if (w->thread == sim_running)
            return;
    sim_watch *watch = malloc(sizeof *watch);
    *watch = (sim_watch){file->watches, sim_running};
    file->watches = watch;
    if (sim_running->watching == sim_running->watch_room) {
        sim_running->watch_room = 2 * sim_running->watch_room + 8;
        sim_running->watched = realloc(sim_running->watched, (size_t)sim_running->watch_room *
                                                                 sizeof *sim_running->watched);
    }
    sim_running->watched[sim_running->watching++] = file;
}

void sim_unwatch_all(sim_thread *thread) {
    for (int i = 0; i < thread->watching; i++) {
        sim_watch **at = &thread->watched[i]->watches;
        while (*at != NULL && (*at)->thread != thread)
            at = &(*at)->next;
        if (*at == NULL)
            continue;
        sim_watch *gone = *at;
        *at = gone->next;
        free(gone);
        if (thread->watched[i]->descriptors == 0) /* its call still uses it */
            later(sim_now(), over_later, thread->watched[i]);
    }
    thread->watching = 0;
}

void sim_file_notify(sim_file *file) {
    for (sim_watch *w = file->watches; w != NULL; w = w->next)
        sim_wake(w->thread);
}

static void timer_due(void *argument) {
    sim_file *timer = argument;
    if (timer->due <= sim_now()) {
        timer->due = SIM_NEVER;
        timer->count++;
        sim_file_notify(timer);
    }
    over(timer);
}

void sim_timer_arm(sim_file *timer, int64_t due) {
    timer->due = due;
    timer->count = 0;
    if (due != SIM_NEVER)
        later(due, timer_due, timer);
}

short sim_file_ready(const sim_file *file, short events) {
    short ready = 0;
    switch (file->kind) {
    case SIM_EVENT:
        ready = POLLOUT | (file->count > 0 ? POLLIN : 0);
        break;
    case SIM_TIMER:
        ready = file->count > 0 ? POLLIN : 0;
        break;
    case SIM_LISTENER:
        ready = file->waiting > 0 ? POLLIN : 0;
        break;
    case SIM_SOCKET:
        if (file->end > file->begin || file->ended || file->shut_in || file->error != 0)
            ready |= POLLIN;
        if ((file->open && file->under_way < WINDOW) || file->error != 0)
            ready |= POLLOUT;
        if (file->error != 0)
            ready |= POLLERR;
        if (file->error != 0 || (file->ended && file->shut_out) ||
            (!file->open && !file->connecting))
            ready |= POLLHUP;
        break;
    }
    return ready & (events | POLLERR | POLLHUP);
}

/* ---------------------------------------------------------------- Network */

/* Return the latency between two hosts, as drawn for each pair; within a host it is always short.
 */
static int64_t way_ns(int from, int to) {
    if (from == to)
        return 8 * SIM_US + (int64_t)sim_random(8000);
    int64_t *latency = &latencies[from < to ? from : to][from < to ? to : from];
    if (*latency == 0)
        *latency = sim_span(20 * SIM_US, sim_set.latency_ns);
    return *latency + (int64_t)sim_random((uint64_t)sim_set.jitter_ns + 1) +
           (sim_chance(sim_set.slow) ? sim_span(SIM_MS, sim_set.slow_ns) : 0);
}

static void arrive(void *argument);

static void expect(sim_file *to) {
    if (to->arriving || to->first == NULL)
        return;
    to->arriving = true;
    later(to->first->at, arrive, to);
}

static void post(sim_file *to, int kind, const void *bytes, size_t length) {
    sim_segment *segment = malloc(sizeof *segment + length);
    segment->next = NULL;
    segment->kind = kind;
    segment->length = length;
    if (length > 0)
        memcpy(segment->bytes, bytes, length);
    int64_t at = sim_now() + way_ns(to->remote.host, to->local.host);
    segment->at = to->latest = at > to->latest ? at : to->latest;
    if (to->last != NULL)
        to->last->next = segment;
    else
        to->first = segment;
    to->last = segment;
    expect(to);
}

static void reset(sim_file *file, int error) {
    if (!file->open && !file->connecting)
        return;
    file->open = file->connecting = false;
    file->error = error;
    drop_segments(file);
    if (file->service_peer != NULL) {
        void *peer = file->service_peer;
        file->service_peer = NULL;
        file->server->service->left(peer);
    }
    sim_file_notify(file);
}

static void keep_bytes(sim_file *to, const char *bytes, size_t length) {
    if (to->begin == to->end)
        to->begin = to->end = 0;
    if (to->end + length > to->room) {
        to->room = 2 * (to->end + length);
        to->data = realloc(to->data, to->room);
    }
    memcpy(to->data + to->end, bytes, length);
    to->end += length;
}

/* Note that the peer has read bytes, or can no longer read them. */
static void make_way(sim_file *from, size_t length) {
    if (from == NULL)
        return;
    bool full = from->under_way >= WINDOW;
    from->under_way -= length < from->under_way ? length : from->under_way;
    if (full)
        sim_file_notify(from);
}

static void hear_now(sim_file *at);

static void hear(void *argument);

static void accept_bytes(sim_file *to, const sim_segment *segment) {
    switch (segment->kind) {
    case SIM_DATA:
        if (!to->open || to->shut_in) {
            /* The socket is closed: the sender gets a reset. */
            if (to->peer != NULL && !to->peer->dead)
                post(to->peer, SIM_RESET, NULL, 0);
            return;
        }
        keep_bytes(to, segment->bytes, segment->length);
        if (to->server != NULL)
            hear_now(to);
        break;
    case SIM_FIN:
        to->ended = true;
        if (to->server != NULL)
            hear_now(to);
        break;
    default:
        reset(to, ECONNRESET);
    }
    sim_file_notify(to);
}

static void arrive(void *argument) {
    sim_file *to = argument;
    to->arriving = false;
    while (to->first != NULL && to->first->at <= sim_now() && !to->dead &&
           !ways_shut[to->remote.host][to->local.host]) {
        sim_segment *segment = to->first;
        to->first = segment->next;
        if (to->first == NULL)
            to->last = NULL;
        sim_trace("net: %zu bytes (%d) arrive at socket %d", segment->length, segment->kind,
                  to->number);
        accept_bytes(to, segment);
        free(segment);
    }
    if (to->first != NULL && to->first->at > sim_now())
        expect(to);
    over(to);
}

size_t sim_send_bytes(sim_file *socket, const void *bytes, size_t length) {
    size_t room = WINDOW > socket->under_way ? WINDOW - socket->under_way : 0;
    length = length < room ? length : room;
    socket->under_way += length;
    size_t sent = 0;
    while (sent < length) {
        size_t part = length - sent;
        if (part > 1 && sim_chance(sim_set.pieces))
            part = 1 + sim_random(part);
        if (socket->peer != NULL)
            post(socket->peer, SIM_DATA, (const char *)bytes + sent, part);
        sent += part;
    }
    return length;
}

size_t sim_take_bytes(sim_file *socket, void *bytes, size_t length, bool peek) {
    size_t there = socket->end - socket->begin;
    length = length < there ? length : there;
    memcpy(bytes, socket->data + socket->begin, length);
    if (!peek) {
        socket->begin += length;
        make_way(socket->peer, length);
    }
    return length;
}

static void remove_listener(sim_file *listener) {
    for (size_t i = 0; i < listener_count; i++)
        if (listeners[i] == listener)
            listeners[i] = listeners[--listener_count];
}

static void stop_listening(sim_file *listener) {
    remove_listener(listener);
    for (size_t i = 0; i < listener->waiting; i++)
        sim_disconnect(listener->backlog[i]);
    listener->waiting = 0;
}

void sim_shut_socket(sim_file *socket, bool in, bool out) {
    if (socket->kind == SIM_LISTENER && in)
        stop_listening(socket);
    socket->shut_in |= in;
    if (out && !socket->shut_out && socket->open && socket->peer != NULL && !socket->dead)
        post(socket->peer, SIM_FIN, NULL, 0);
    socket->shut_out |= out;
    sim_file_notify(socket);
}

/* Connect two sockets whose addresses the caller has set. */
static void join(sim_file *a, sim_file *b) {
    a->peer = b;
    b->peer = a;
    a->open = b->open = true;
}

void sim_pair(sim_file *a, sim_file *b) {
    a->local.host = a->remote.host = b->local.host = b->remote.host =
        sim_running != NULL ? sim_running->process->host : 0;
    join(a, b);
}

/* ------------------------------------------------------------- Connecting */

static bool same_address(const sim_address_of *listens, const sim_address_of *wanted) {
    if (wanted->path[0] != '\0')
        return strcmp(listens->path, wanted->path) == 0;
    return listens->path[0] == '\0' && listens->host == wanted->host &&
           listens->port == wanted->port;
}

sim_file *sim_listener_at(const sim_address_of *address) {
    for (size_t i = 0; i < listener_count; i++)
        if (same_address(&listeners[i]->local, address))
            return listeners[i];
    return NULL;
}

void sim_listen_here(sim_file *file, size_t most) {
    file->kind = SIM_LISTENER;
    file->most = most;
    file->backlog = calloc(most, sizeof(sim_file *));
    listeners[listener_count++] = file;
}

static void accept_at(sim_file *listener, sim_file *from) {
    sim_file *here = sim_file_new(SIM_SOCKET);
    here->local = listener->local;
    if (here->local.path[0] != '\0')
        here->local.host = from->local.host; /* which is on the same host */
    here->remote = from->local;
    here->server = listener->server;
    join(from, here);
    if (listener->server != NULL) {
        here->service_peer = listener->server->service->joined(listener->server->self, here);
    } else {
        listener->backlog[listener->waiting++] = here;
        sim_file_notify(listener);
    }
}

/* Let the first packet arrive; the system sends it again each second until connect() gives up. */
static void knock(void *argument) {
    sim_file *from = argument;
    int here = from->local.host, there = from->remote.host;
    if (from->connecting && !from->dead) {
        bool arrives = !ways_shut[here][there] && !ways_shut[there][here];
        sim_file *listener = sim_listener_at(&from->remote);
        if (arrives && listener == NULL) {
            reset(from, ECONNREFUSED);
        } else if (arrives && (listener->server != NULL || listener->waiting < listener->most)) {
            from->connecting = false;
            accept_at(listener, from);
            sim_file_notify(from);
        } else if (sim_now() - from->began < 127 * SIM_S) {
            later(sim_now() + SIM_S, knock, from);
        } else {
            reset(from, ETIMEDOUT);
        }
    }
    over(from);
}

int sim_connect_to(sim_file *socket, const sim_address_of *address) {
    socket->remote = *address;
    socket->local.host = sim_running->process->host;
    if (socket->local.port == 0)
        socket->local.port = sim_ephemeral++;
    if (address->path[0] != '\0') {
        sim_file *listener = sim_listener_at(address);
        if (listener == NULL)
            return ECONNREFUSED;
        socket->remote.host = socket->local.host;
        accept_at(listener, socket);
        return 0;
    }
    socket->connecting = true;
    socket->began = sim_now();
    later(sim_now() + 2 * way_ns(socket->local.host, address->host), knock, socket);
    return EINPROGRESS;
}

/* Close the socket with its last descriptor. */
static void close_socket(sim_file *file) {
    if (file->open && file->peer != NULL && !file->dead && !file->cut && !file->shut_out)
        post(file->peer, file->end > file->begin ? SIM_RESET : SIM_FIN, NULL, 0);
    file->open = file->connecting = false;
    file->shut_in = file->shut_out = true;
}

void sim_file_close(sim_file *file) {
    if (--file->descriptors > 0)
        return;
    if (file->kind == SIM_LISTENER) {
        stop_listening(file);
    } else if (file->kind == SIM_SOCKET) {
        close_socket(file);
    }
    file->due = SIM_NEVER;
    drop_if_over(file);
}

void sim_file_cut(sim_file *file) { file->cut = true; }

/* ---------------------------------------------------------------- Servers */

bool sim_server_up(const sim_server *server) { return server->up && !server->process->stopped; }

static void hear_now(sim_file *at) {
    sim_server *server = at->server;
    if (!sim_server_up(server) || at->service_peer == NULL || at->hears_later)
        return;
    if (sim_now() < server->busy_until) {
        at->hears_later = true;
        later(server->busy_until, hear, at);
        return;
    }
    size_t length = at->end - at->begin;
    if (length > 0) {
        char *bytes = at->data;
        size_t begin = at->begin;
        at->data = NULL;
        at->begin = at->end = at->room = 0;
        make_way(at->peer, length);
        server->service->heard(at->service_peer, bytes + begin, length);
        free(bytes);
    }
    if (at->ended)
        sim_disconnect(at);
}

/* Let the server read what has arrived, unless it is stopped or busy. */
static void hear(void *argument) {
    sim_file *at = argument;
    at->hears_later = false;
    hear_now(at);
    over(at);
}

void sim_send(sim_file *connection, const void *bytes, size_t length) {
    if (!connection->open || connection->shut_out)
        return;
    connection->under_way = 0; /* a server keeps bytes that it cannot send */
    while (length > 0) {
        size_t sent = sim_send_bytes(connection, bytes, length);
        bytes = (const char *)bytes + sent;
        length -= sent;
        connection->under_way = 0;
    }
}

static void go(void *connection) { over(connection); }

void sim_disconnect(sim_file *connection) {
    if (connection->service_peer == NULL && !connection->open)
        return;
    void *peer = connection->service_peer;
    connection->service_peer = NULL;
    if (peer != NULL)
        connection->server->service->left(peer);
    if (connection->open && connection->peer != NULL && !connection->dead)
        post(connection->peer, SIM_FIN, NULL, 0);
    connection->open = false;
    connection->shut_in = connection->shut_out = true;
    later(sim_now(), go, connection);
}

static void hang_up(void *connection) {
    sim_disconnect(connection);
    over(connection);
}

void sim_disconnect_soon(sim_file *connection) { later(sim_now(), hang_up, connection); }

static sim_file *listen_at(sim_server *server, int port, const char *path) {
    sim_file *listener = sim_file_new(SIM_LISTENER);
    listener->local = (sim_address_of){.host = server->host, .port = port};
    if (path != NULL)
        snprintf(listener->local.path, sizeof listener->local.path, "%s", path);
    listener->server = server;
    sim_listen_here(listener, 1);
    return listener;
}

sim_server *sim_listen(const char *name, int host, int port, const char *path,
                       const sim_service *service, void *self) {
    sim_server *server = calloc(1, sizeof *server);
    snprintf(server->name, sizeof server->name, "%s", name);
    server->host = host;
    server->port = port;
    server->process = sim_new_process(name, host);
    server->process->server = server;
    server->process->began = 0;
    server->process->step = INT64_C(1700000000) * SIM_S;
    server->service = service;
    server->self = self;
    server->up = true;
    server->listeners[0] = listen_at(server, port, NULL);
    if (path != NULL)
        server->listeners[1] = listen_at(server, port, path);
    server->next = servers;
    return servers = server;
}

int sim_server_pid(const sim_server *server) { return server->process->pid; }

static void each_connection(sim_server *server, void (*call)(sim_file *)) {
    for (sim_file *f = files, *next; f != NULL; f = next) {
        next = f->next;
        if (f->kind == SIM_SOCKET && f->server == server && f->service_peer != NULL)
            call(f);
    }
}

void sim_server_stop(sim_server *server) {
    if (!server->up)
        return;
    sim_trace("server %s stops", server->name);
    server->up = false;
    each_connection(server, sim_disconnect);
    for (int i = 0; i < 2; i++)
        if (server->listeners[i] != NULL)
            remove_listener(server->listeners[i]);
}

void sim_server_start(sim_server *server) {
    if (server->up)
        return;
    sim_trace("server %s starts", server->name);
    server->up = true;
    server->busy_until = 0;
    for (int i = 0; i < 2; i++)
        if (server->listeners[i] != NULL)
            listeners[listener_count++] = server->listeners[i];
}

void sim_server_pause(sim_server *server, bool paused) {
    if (server->process->stopped == paused)
        return;
    sim_trace("server %s is %s", server->name, paused ? "stopped" : "continued");
    server->process->stopped = paused;
    if (!paused)
        each_connection(server, hear_now);
}

void sim_server_signal(sim_server *server, int number) {
    if (number == SIGSTOP || number == SIGCONT)
        sim_server_pause(server, number == SIGSTOP);
    else if (number != 0 && server->killed != NULL)
        server->killed(server->self);
}

void sim_server_on_kill(sim_server *server, void (*killed)(void *)) { server->killed = killed; }

void sim_server_spend(sim_server *server, int64_t ns) {
    int64_t from = server->busy_until > sim_now() ? server->busy_until : sim_now();
    server->busy_until = from + ns;
}

int64_t sim_server_time(const sim_server *server) {
    return (sim_local(server->process) + server->process->step) / SIM_US;
}

void sim_server_drift(sim_server *server, int ppm) { sim_drift(server->process, ppm); }
void sim_server_step(sim_server *server, int64_t ns) { sim_step(server->process, ns); }

/* ----------------------------------------------------------------- Faults */

void sim_way(int from, int to, bool open) {
    if (ways_shut[from][to] == !open)
        return;
    sim_trace("net: the way from host %d to %d is %s", from, to, open ? "open" : "shut");
    ways_shut[from][to] = !open;
    if (!open)
        return;
    /* Segments that were lost meanwhile are sent again within a second. */
    for (sim_file *f = files; f != NULL; f = f->next)
        if (f->kind == SIM_SOCKET && f->first != NULL && f->remote.host == from &&
            f->local.host == to && !f->arriving) {
            int64_t at = sim_now() + (int64_t)sim_random((uint64_t)SIM_S);
            for (sim_segment *s = f->first; s != NULL; s = s->next)
                s->at = s->at > at ? s->at : at;
            f->latest = f->latest > at ? f->latest : at;
            expect(f);
        }
}

void sim_distance(int a, int b, int64_t ns) { latencies[a < b ? a : b][a < b ? b : a] = ns; }

bool sim_way_open(int from, int to) { return !ways_shut[from][to]; }

static bool between(const sim_file *file, int a, int b) {
    if (file->kind != SIM_SOCKET || !file->open || file->peer == NULL)
        return false;
    int here = file->local.host, there = file->remote.host;
    return (a < 0 || a == here || a == there) && (b < 0 || b == here || b == there);
}

/* Let a part of the bytes under way arrive, perhaps half a message, and then the reset. */
static void cut_off(sim_file *file) {
    size_t keep = 0;
    for (sim_segment *s = file->first; s != NULL && s->kind != SIM_RESET; s = s->next)
        keep += s->length;
    keep = keep > 0 ? sim_random(keep + 1) : 0;
    for (sim_segment **at = &file->first; *at != NULL;) {
        sim_segment *segment = *at;
        if (segment->kind == SIM_RESET) /* an earlier cut: what was sent since does not arrive */
            keep = 0;
        if (keep > 0 && segment->kind == SIM_DATA) {
            segment->length = segment->length < keep ? segment->length : keep;
            keep -= segment->length;
            file->last = segment;
            at = &segment->next;
        } else {
            *at = segment->next;
            free(segment);
        }
    }
    if (file->first == NULL)
        file->last = NULL;
    post(file, SIM_RESET, NULL, 0);
}

void sim_cut(int a, int b, double probability) {
    for (sim_file *f = files; f != NULL; f = f->next)
        if (between(f, a, b) && f->number < f->peer->number && sim_chance(probability)) {
            sim_trace("net: sockets %d and %d are cut", f->number, f->peer->number);
            sim_file *peer = f->peer;
            cut_off(f);
            cut_off(peer);
        }
}

void sim_deaden(int a, int b, double probability) {
    for (sim_file *f = files; f != NULL; f = f->next)
        if (between(f, a, b) && f->number < f->peer->number && sim_chance(probability)) {
            sim_trace("net: sockets %d and %d are dead", f->number, f->peer->number);
            f->dead = f->peer->dead = true;
        }
}

void sim_names(bool work) { names_work = work; }
bool sim_names_work(void) { return names_work; }
void sim_move_name(int of, int to) { leads_to[of] = to; }
int sim_named(int host) { return leads_to[host] != 0 ? leads_to[host] : host; }

const char *sim_address(int host) {
    static char text[32];
    snprintf(text, sizeof text, "10.0.0.%d", host);
    return text;
}

void sim_files_begin(void) {
    memset(ways_shut, 0, sizeof ways_shut);
    memset(latencies, 0, sizeof latencies);
    listener_count = 0;
    file_numbers = 0;
    names_work = true;
    memset(leads_to, 0, sizeof leads_to);
    sim_ephemeral = 20000;
}

void sim_files_end(void) {
    while (files != NULL)
        drop_file(files);
    for (sim_server *s = servers, *next; s != NULL; s = next) {
        next = s->next;
        free(s);
    }
    servers = NULL;
}
