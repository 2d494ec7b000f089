/* What a seed draws: its programs, its world, its faults and when they happen. */
#ifndef SIM_SWARM_H
#define SIM_SWARM_H

#include "kernel.h"
#include "servers.h"
#include "workload.h"

typedef enum {
    CUT,      /* connections are reset */
    DEADEN,   /* they look alive, and are not */
    ONE_WAY,  /* nothing gets through in one direction, for a while */
    APART,    /* nor in the other */
    STALL,    /* the server stops for a while */
    REFUSE,   /* it answers errors for a while */
    RESTART,  /* with its data */
    EMPTY,    /* without */
    FORGET,   /* SCRIPT FLUSH */
    PAUSE,    /* a process stops for a while */
    KILL,     /* and for ever; another begins */
    POWER,    /* and its host says nothing more */
    SIGNAL,   /* ends waits */
    STEP,     /* the server's clock steps */
    DELETE,   /* a lock's key is deleted */
    FULL,     /* maxclients, for a while */
    DEAF,     /* the user may not use channels, for a while */
    UNHEARD,  /* the server ends all subscriptions */
    NAMELESS, /* names are not found, for a while */
    PROMOTE,  /* a replica takes the master's place, or old data do; or a slot of a cluster moves */
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
    int64_t fault_every_ns; /* on the average; 0: none */
    int weights[FAULTS];    /* of each kind; 0: none */
    int64_t longest_ns;     /* of one that lasts */
    bool memory;
    int drift_ppm;
} swarm;

swarm swarm_draw(uint64_t seed, const char *only);
void swarm_tell(const swarm *drawn);
/* Start its processes and its faults; when all is over, the world ends. */
void swarm_begin(const swarm *drawn);
/* Leave that part of it out, of all its parts; false: it has none of it. */
int swarm_parts(void);
bool swarm_leave_out(swarm *drawn, int part);

#endif
