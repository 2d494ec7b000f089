/* Each test has two clients, Ann's and Ben's, of a server that is as new. */
#ifndef TWO_H
#define TWO_H

#include "../server.h"

static hf_client *ann, *ben;

static int set_up(void **state) {
    (void)state;
    start_afresh();
    ann = open_client();
    ben = open_client();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(ann);
    hf_client_close(ben);
    return 0;
}

#endif
