/* What a seed draws: its programs, its world, its faults and when they happen. */
#ifndef SIM_SWARM_H
#define SIM_SWARM_H

#include "kernel.h"
#include "servers.h"
#include "workload.h"

typedef enum {
    CUT,      /* connections are reset */
    DEADEN,   /* connections look alive, and are dead */
    ONE_WAY,  /* a way is shut in one direction, for a while */
    APART,    /* a way is shut in both directions, for a while */
    STALL,    /* the server stops for a while */
    REFUSE,   /* the server answers errors for a while */
    RESTART,  /* the server restarts with its data */
    EMPTY,    /* the server restarts without its data */
    FORGET,   /* SCRIPT FLUSH */
    PAUSE,    /* a process stops for a while */
    KILL,     /* a process is killed; another begins */
    POWER,    /* the same, and its host falls silent */
    SIGNAL,   /* a signal ends waits */
    STEP,     /* the server's clock steps */
    DELETE,   /* a lock's key is deleted */
    FULL,     /* maxclients, for a while */
    DEAF,     /* the user may not use channels, for a while */
    UNHEARD,  /* the server ends all subscriptions */
    NAMELESS, /* names are not found, for a while */
    PROMOTE,  /* a replica is promoted, or old data return; or a slot of a cluster moves */
    FOREIGN,  /* another library takes a free lock, for a while or for ever */
    SCARCE,   /* a process gets no more descriptors and threads, for a while */
    FAULTS
} fault;

typedef struct swarm {
    deployment deployment;
    uint64_t seed;
    sim_settings settings;
    workload work;
    int hosts, processes;
    int64_t fault_every_ns; /* on average; 0: no faults */
    int weights[FAULTS];    /* of each kind; 0: never */
    int64_t longest_ns;     /* of a fault that lasts */
    bool memory;
    int drift_ppm;
} swarm;

swarm swarm_draw(uint64_t seed, const char *only);
void swarm_tell(const swarm *drawn);
/* Start its processes and its faults; the world ends when all are over. */
void swarm_begin(const swarm *drawn);
/* Return the number of parts of what was drawn; leave out a part (false: there is no such part). */
int swarm_parts(void);
bool swarm_leave_out(swarm *drawn, int part);

#endif
