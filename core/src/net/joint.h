/*
 * One connection for several calls at once. A call adds its request and sends it, unless one that
 * is sending will do that too. One of them reads the answers, for all, until it has its own, and
 * then the next one reads on. So a busy server reads and writes once for many requests. While all
 * is well hardly a system call runs under the mutex, and a call that is woken with its answer goes
 * without it.
 */
#ifndef HF_JOINT_H
#define HF_JOINT_H

#include "net/connection.h"

/* From now on, until the end, calls use the connection by hf_joint_exchange() only. Nobody uses it
 * at these moments, and it speaks no TLS: only one thread at a time may use OpenSSL's session. */
void hf_joint_begin(hf_connection *connection);
/* HF_OK: the connection is still good. */
hf_status hf_joint_end(hf_connection *connection);

/*
 * Send the request and wait for its answer, whatever the other calls do. After any other status
 * than HF_OK no other call must come to the connection, and the last one closes it; those that are
 * there still get their answers, if any come.
 */
hf_status hf_joint_exchange(hf_connection *connection, const hf_request *request, bool whole,
                            int64_t now, int64_t deadline, redisReply **reply_out);

#endif
