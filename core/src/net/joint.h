/*
 * One connection for several calls at once. A call adds its request and sends it, unless a call
 * that is sending will send it too. One of the calls reads the answers for all, until it has its
 * own, and then the next call reads on. So a busy server reads and writes once for many requests.
 * Normally hardly any system call runs under the mutex, and a call that is woken with its answer
 * does not take it.
 */
#ifndef HF_JOINT_H
#define HF_JOINT_H

#include "net/connection.h"

/* Begin and end: in between, calls use the connection only through the functions below. At these
 * two moments no call uses it. */
void hf_joint_begin(hf_connection *connection);
/* End. HF_OK: the connection is still good. */
hf_status hf_joint_end(hf_connection *connection);

/*
 * Send the request and wait for its answer, whatever the other calls do. After any status but HF_OK
 * no further call must use the connection, and its last user closes it; the calls that use it still
 * get their answers, if any arrive. how: see hf_connection_append().
 */
hf_status hf_joint_exchange(hf_connection *connection, const hf_request *request, int how,
                            int64_t now, int64_t deadline, redisReply **reply_out);

/*
 * Count the replicas that have the writes of this call, until there are enough or the time is over;
 * the deadline is for the answer. -1: WAIT was refused, for the reason in this thread's message.
 * Because WAIT blocks the connection, calls send it together, and each WAIT is short.
 */
hf_status hf_joint_count(hf_connection *connection, int replicas, int64_t ms, int64_t deadline,
                         int64_t *count_out);

#endif
