/* Commands on strings. */
#include "internal.h"

#include <stdlib.h>

/* Give the key a new value in place of the old one. */
static sim_key *set_value(sim_call *call, sim_key *key, sim_bytes value) {
    if (key == NULL)
        key = sim_db_add(call->db, call->argv[1], 's');
    if (key->type != 's')
        sim_key_empty(key);
    key->type = 's';
    sim_key_set(key, value);
    call->changed = true;
    return key;
}

static void get(sim_call *call) {
    sim_key *key;
    if (!sim_see_type(call, call->argv[1], 's', &key))
        return;
    if (key == NULL)
        sim_reply_nil(call);
    else
        sim_reply_bytes(call, sim_of(key->value));
}

typedef struct set_options {
    bool nx, xx, get, keep;
    int64_t expires_ms; /* or SIM_NEVER */
} set_options;

/* Read EX, PX, EXAT or PXAT, and a number. False: the call was answered. */
static bool read_expiry(sim_call *call, int at, set_options *options) {
    sim_bytes word = call->argv[at];
    int64_t number;
    int64_t unit = (*word.bytes | 0x20) == 'p' ? 1 : 1000;
    if (!sim_integer(call, at + 1, &number))
        return false;
    int64_t base = word.length == 2 ? sim_now_ms(call->server) : 0;
    if (number <= 0 || number > (INT64_MAX - 1 - base) / unit) {
        sim_reply_error(call, "ERR invalid expire time in '%s' command", call->command->name);
        return false;
    }
    options->expires_ms = number * unit + base;
    return true;
}

static bool read_options(sim_call *call, set_options *options) {
    *options = (set_options){.expires_ms = SIM_NEVER};
    int expiry = 0;
    for (int i = 3; i < call->argc; i++) {
        sim_bytes word = call->argv[i];
        bool times = sim_is(word, "EX") || sim_is(word, "PX") || sim_is(word, "EXAT") ||
                     sim_is(word, "PXAT");
        if (times && i + 1 < call->argc && expiry == 0)
            expiry = i++;
        else if (sim_is(word, "NX"))
            options->nx = true;
        else if (sim_is(word, "XX"))
            options->xx = true;
        else if (sim_is(word, "GET"))
            options->get = true;
        else if (sim_is(word, "KEEPTTL"))
            options->keep = true;
        else
            times = options->nx = options->xx = true;
    }
    if ((options->nx && options->xx) || (expiry > 0 && options->keep)) {
        sim_reply_error(call, "ERR syntax error");
        return false;
    }
    return expiry == 0 || read_expiry(call, expiry, options);
}

/* Send replicas the time of the end, not a time from now on. */
static void repeat_set(sim_call *call, const set_options *options) {
    sim_digits digits;
    if (options->expires_ms == SIM_NEVER)
        return;
    sim_repeat(call->server, call->db->number, 5,
               (sim_bytes[]){sim_word("SET"), call->argv[1], call->argv[2], sim_word("PXAT"),
                             sim_written(options->expires_ms, digits)});
    call->repeated = true;
}

static void set(sim_call *call) {
    set_options options;
    if (!read_options(call, &options))
        return;
    sim_key *key = sim_see(call, call->argv[1]);
    if (options.get && !sim_see_type(call, call->argv[1], 's', &key))
        return;
    bool sets = key != NULL ? !options.nx : !options.xx;
    if (options.get && key != NULL)
        sim_reply_bytes(call, sim_of(key->value));
    else if (options.get || !sets)
        sim_reply_nil(call);
    else
        sim_reply_ok(call);
    if (!sets)
        return;
    key = set_value(call, key, call->argv[2]);
    if (!options.keep)
        sim_db_expire(call->db, key, options.expires_ms);
    repeat_set(call, &options);
}

static void length(sim_call *call) {
    sim_key *key;
    if (sim_see_type(call, call->argv[1], 's', &key))
        sim_reply_integer(call, key != NULL ? (int64_t)key->value->length : 0);
}

static void getrange(sim_call *call) {
    sim_key *key;
    int64_t first, last;
    if (!sim_integer(call, 2, &first) || !sim_integer(call, 3, &last) ||
        !sim_see_type(call, call->argv[1], 's', &key))
        return;
    int64_t size = key != NULL ? (int64_t)key->value->length : 0;
    first = first < 0 ? (first + size < 0 ? 0 : first + size) : first;
    last = last < 0 ? (last + size < 0 ? 0 : last + size) : last >= size ? size - 1 : last;
    if (size == 0 || first > last)
        sim_reply_word(call, "");
    else
        sim_reply_bytes(call, (sim_bytes){key->value->bytes + first, (size_t)(last - first + 1)});
}

static void setrange(sim_call *call) {
    sim_key *key;
    int64_t at;
    if (!sim_integer(call, 2, &at) || !sim_see_type(call, call->argv[1], 's', &key))
        return;
    if (at < 0) {
        sim_reply_error(call, "ERR offset is out of range");
        return;
    }
    sim_buffer value = {0};
    sim_bytes with = call->argv[3];
    if (key != NULL)
        sim_add(&value, key->value->bytes, key->value->length);
    while (with.length > 0 && value.length < (size_t)at + with.length)
        sim_add(&value, "", 1);
    if (with.length > 0) {
        memcpy(value.bytes + at, with.bytes, with.length);
        set_value(call, key, sim_whole(&value));
    }
    sim_reply_integer(call, (int64_t)value.length);
    free(value.bytes);
}

const sim_command sim_strings_commands[] = {
    {"get", get, 2, 0, 1, 1, 1},
    {"set", set, -3, SIM_WRITE | SIM_DENYOOM, 1, 1, 1},
    {"strlen", length, 2, 0, 1, 1, 1},
    {"getrange", getrange, 4, 0, 1, 1, 1},
    {"setrange", setrange, 4, SIM_WRITE | SIM_DENYOOM, 1, 1, 1},
    {NULL, NULL, 0, 0, 0, 0, 0},
};
