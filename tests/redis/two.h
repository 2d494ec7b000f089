/* Two clients for each test, Ann's and Ben's, on an empty server. */
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
