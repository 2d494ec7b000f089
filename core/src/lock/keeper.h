/* The client's thread: it fires timers, sends renewals and drives the links. */
#ifndef HF_KEEPER_H
#define HF_KEEPER_H

/* Run the loop, for client->run; it ends when client->stop is set. */
void *hf_keeper_run(void *client);

#endif
