/* Answers: to a client as bytes, to a script as values on Lua's stack. */
#include "internal.h"

#include <math.h>
#include <stdio.h>

void sim_put_head(sim_buffer *to, char kind, int64_t number) {
    sim_digits room;
    sim_bytes digits = sim_written(number, room);
    char line[sizeof room + 3] = {kind};
    memcpy(line + 1, digits.bytes, digits.length);
    memcpy(line + 1 + digits.length, "\r\n", 2);
    sim_add(to, line, digits.length + 3);
}

void sim_put_bytes(sim_buffer *to, sim_bytes bytes) {
    sim_put_head(to, '$', (int64_t)bytes.length);
    sim_add(to, bytes.bytes, bytes.length);
    sim_add(to, "\r\n", 2);
}

/* Put the value on top of Lua's stack into the open array. A full array is a value itself. */
static void pushed(sim_call *call) {
    while (call->depth > 0) {
        int top = call->depth - 1;
        lua_rawseti(call->lua, -2, ++call->open[top].next);
        if (call->open[top].next < call->open[top].count)
            return;
        call->depth--;
    }
}

static void push_field(sim_call *call, const char *name, sim_bytes value) {
    lua_createtable(call->lua, 0, 1);
    lua_pushlstring(call->lua, value.bytes, value.length);
    lua_setfield(call->lua, -2, name);
    pushed(call);
}

void sim_reply_status(sim_call *call, const char *status) {
    if (call->lua != NULL)
        push_field(call, "ok", sim_word(status));
    else
        sim_addf(&call->peer->output, "+%s\r\n", status);
}

void sim_reply_ok(sim_call *call) { sim_reply_status(call, "OK"); }

void sim_reply_error(sim_call *call, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text)
        length = sizeof text - 1;
    call->failed = true;
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\r' || *at == '\n')
            *at = ' ';
    if (call->lua != NULL)
        push_field(call, "err", (sim_bytes){text, (size_t)length});
    else
        sim_addf(&call->peer->output, "-%s\r\n", text);
}

void sim_reply_integer(sim_call *call, int64_t number) {
    if (call->lua == NULL) {
        sim_put_head(&call->peer->output, ':', number);
        return;
    }
    lua_pushnumber(call->lua, (lua_Number)number);
    pushed(call);
}

void sim_reply_bytes(sim_call *call, sim_bytes bytes) {
    if (call->lua == NULL) {
        sim_put_bytes(&call->peer->output, bytes);
        return;
    }
    lua_pushlstring(call->lua, bytes.bytes, bytes.length);
    pushed(call);
}

void sim_reply_digits(sim_call *call, int64_t number) {
    sim_digits room;
    sim_reply_bytes(call, sim_written(number, room));
}

void sim_reply_word(sim_call *call, const char *word) { sim_reply_bytes(call, sim_word(word)); }

void sim_reply_score(sim_call *call, double score) {
    char room[40];
    sim_bytes text = {room, 0};
    if (isinf(score))
        text = sim_word(score > 0 ? "inf" : "-inf");
    else if (fabs(score) < 1e16 && score == (double)(int64_t)score && score != 0)
        text = sim_written((int64_t)score, room); /* the usual case, and ten times faster */
    else
        text.length = (size_t)snprintf(room, sizeof room, "%.17g", score);
    if (call->lua == NULL && call->peer->resp > 2)
        sim_addf(&call->peer->output, ",%.*s\r\n", (int)text.length, text.bytes);
    else
        sim_reply_bytes(call, text);
}

void sim_reply_nil(sim_call *call) {
    if (call->lua != NULL) {
        lua_pushboolean(call->lua, 0);
        pushed(call);
    } else if (call->peer->resp > 2) {
        sim_add(&call->peer->output, "_\r\n", 3);
    } else {
        sim_add(&call->peer->output, "$-1\r\n", 5);
    }
}

void sim_reply_nil_array(sim_call *call) {
    if (call->lua != NULL || call->peer->resp > 2)
        sim_reply_nil(call);
    else
        sim_add(&call->peer->output, "*-1\r\n", 5);
}

void sim_reply_array(sim_call *call, size_t count) {
    if (call->lua == NULL) {
        sim_put_head(&call->peer->output, '*', (int64_t)count);
        return;
    }
    lua_createtable(call->lua, (int)count, 0);
    if (count == 0) {
        pushed(call);
        return;
    }
    call->open[call->depth].next = 0;
    call->open[call->depth++].count = (int)count;
}

void sim_reply_map(sim_call *call, size_t count) {
    if (call->lua == NULL && call->peer->resp > 2)
        sim_put_head(&call->peer->output, '%', (int64_t)count);
    else
        sim_reply_array(call, 2 * count);
}
