/* Each test has two clients, Ann's and Ben's, of a server that is as new. */
#ifndef TWO_H
#define TWO_H

#include "../clients.h"

static int set_up(void **state) {
    (void)state;
    start_afresh();
    ann = open_client();
    ben = open_client();
    return 0;
}

#endif
