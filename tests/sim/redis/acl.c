/* Users and their permissions. */
#include "internal.h"

#include <stdlib.h>

/* ------------------------------------------------------- Words in a buffer */

static void add_to(sim_buffer *words, sim_bytes word) {
    sim_add(words, word.bytes, word.length);
    sim_add(words, "", 1);
}

/* Take the next word, from *at on; at the end an empty word. */
static sim_bytes next_word(const sim_buffer *words, size_t *at) {
    if (*at >= words->length)
        return (sim_bytes){0};
    sim_bytes word = sim_word(words->bytes + *at);
    *at += word.length + 1;
    return word;
}

static bool matches(const sim_buffer *patterns, sim_bytes text, bool literally) {
    sim_bytes pattern;
    for (size_t at = 0; (pattern = next_word(patterns, &at)).bytes != NULL;)
        if (sim_same(pattern, sim_word("*")) ||
            (literally ? sim_same(pattern, text) : sim_glob(pattern, text)))
            return true;
    return false;
}

/* ------------------------------------------------------------------- Users */

static sim_user *find_user(const sim_redis *server, sim_bytes name) {
    sim_user *user = server->users;
    while (user != NULL && !sim_same(name, sim_word(user->name)))
        user = user->next;
    return user;
}

sim_user *sim_user_make(sim_redis *server, sim_bytes name) {
    sim_user **at = &server->users, *user = find_user(server, name);
    if (user != NULL)
        return user;
    while (*at != NULL)
        at = &(*at)->next;
    user = sim_grow(NULL, sizeof *user);
    *user = (sim_user){.name = sim_grow(NULL, name.length + 1)};
    memcpy(user->name, name.bytes, name.length);
    user->name[name.length] = '\0';
    return *at = user;
}

static void free_user(sim_user *user) {
    free(user->name);
    free(user->passwords.bytes);
    free(user->keys.bytes);
    free(user->channels.bytes);
    free(user);
}

static void forget_denials(sim_redis *server);

void sim_users_free(sim_redis *server) {
    for (sim_user *next; server->users != NULL; server->users = next) {
        next = server->users->next;
        free_user(server->users);
    }
    forget_denials(server);
}

static bool allow(sim_redis *server, sim_user *user, sim_bytes name, bool allowed) {
    bool found = sim_is(name, "@all");
    for (int i = 0; i < server->command_count; i++) {
        const char *known = server->commands[i]->name;
        sim_bytes group = {known, strcspn(known, "|")};
        if (!sim_is(name, "@all") && !sim_is(name, known) &&
            (name.length != group.length || strncmp(name.bytes, known, name.length) != 0))
            continue;
        user->allowed[i] = allowed;
        found = true;
    }
    return found;
}

bool sim_user_rule(sim_redis *server, sim_user *user, sim_bytes rule) {
    static const char *const other[][2] = {{"allkeys", "~*"},
                                           {"allchannels", "&*"},
                                           {"allcommands", "+@all"},
                                           {"nocommands", "-@all"},
                                           {"sanitize-payload", "clearselectors"}};
    sim_bytes rest = {rule.bytes + 1, rule.length - 1};
    for (size_t i = 0; i < SIM_COUNT(other); i++)
        if (sim_is(rule, other[i][0]))
            return sim_user_rule(server, user, sim_word(other[i][1]));
    if (rule.length == 0)
        return false;
    if (sim_is(rule, "on") || sim_is(rule, "off")) {
        user->on = rule.length == 2;
    } else if (sim_is(rule, "nopass") || sim_is(rule, "resetpass")) {
        user->nopass = sim_is(rule, "nopass");
        user->passwords.length = 0;
    } else if (sim_is(rule, "resetkeys")) {
        user->keys.length = 0;
    } else if (sim_is(rule, "resetchannels")) {
        user->channels.length = 0;
    } else if (sim_is(rule, "reset")) {
        user->on = user->nopass = false;
        user->passwords.length = user->keys.length = user->channels.length = 0;
        memset(user->allowed, 0, sizeof user->allowed);
    } else if (*rule.bytes == '>') {
        add_to(&user->passwords, rest);
        user->nopass = false;
    } else if (*rule.bytes == '~') {
        add_to(&user->keys, rest);
    } else if (rule.length > 4 && strncmp(rule.bytes, "%RW~", 4) == 0) {
        add_to(&user->keys, (sim_bytes){rule.bytes + 4, rule.length - 4});
    } else if (*rule.bytes == '&') {
        add_to(&user->channels, rest);
    } else if (*rule.bytes == '+' || *rule.bytes == '-') {
        return allow(server, user, rest, *rule.bytes == '+');
    } else {
        return sim_is(rule, "clearselectors");
    }
    return true;
}

static bool key_allowed(const sim_user *user, const sim_command *command, int argc,
                        const sim_bytes *argv, int *which) {
    if ((command->flags & SIM_SHARDED) != 0)
        return true;
    for (int at = 0; sim_command_key(command, argc, argv, &at);) {
        *which = at;
        if (!matches(&user->keys, argv[at], false))
            return false;
    }
    return true;
}

static bool channel_allowed(const sim_user *user, const sim_command *command, int argc,
                            const sim_bytes *argv, int *which) {
    bool patterns = (command->flags & SIM_PATTERNS) != 0;
    int last = patterns || (command->flags & SIM_CHANNELS) != 0 ? argc - 1
               : (command->flags & SIM_CHANNEL) != 0            ? 1
                                                                : 0;
    for (*which = 1; *which <= last; ++*which)
        if (!matches(&user->channels, argv[*which], patterns))
            return false;
    return true;
}

sim_verdict sim_allowed(const sim_redis *server, const sim_user *user, int command, int argc,
                        const sim_bytes *argv, int *which) {
    const sim_command *of = server->commands[command];
    *which = 0;
    if ((of->flags & SIM_NOAUTH) == 0 && !user->allowed[command])
        return SIM_NO_COMMAND;
    if (!key_allowed(user, of, argc, argv, which))
        return SIM_NO_KEY;
    return channel_allowed(user, of, argc, argv, which) ? SIM_ALLOWED : SIM_NO_CHANNEL;
}

/* -------------------------------------------------------- Refused commands */

typedef struct sim_denial {
    struct sim_denial *next;
    int64_t count;
    const char *reason, *context;
    sim_text *object, *user;
} sim_denial;

static void forget_denials(sim_redis *server) {
    for (sim_denial *next; server->denials != NULL; server->denials = next) {
        next = server->denials->next;
        free(server->denials->object);
        free(server->denials->user);
        free(server->denials);
    }
}

static void log_denial(sim_call *call, const char *reason, sim_bytes object, sim_bytes user) {
    sim_redis *server = call->server;
    const char *context = call->lua != NULL ? "lua" : call->peer->multi ? "multi" : "toplevel";
    for (sim_denial *old = server->denials; old != NULL; old = old->next)
        if (old->reason == reason && old->context == context &&
            sim_same(sim_of(old->object), object) && sim_same(sim_of(old->user), user)) {
            old->count++;
            return;
        }
    sim_denial *denial = sim_grow(NULL, sizeof *denial);
    *denial = (sim_denial){.next = server->denials,
                           .count = 1,
                           .reason = reason,
                           .context = context,
                           .object = sim_text_new(object),
                           .user = sim_text_new(user)};
    server->denials = denial;
}

void sim_denied(sim_call *call, sim_verdict verdict, int which) {
    static const char *const reasons[] = {
        [SIM_NO_COMMAND] = "command", [SIM_NO_KEY] = "key", [SIM_NO_CHANNEL] = "channel"};
    sim_bytes object =
        verdict == SIM_NO_COMMAND ? sim_word(call->command->name) : call->argv[which];
    log_denial(call, reasons[verdict], object, sim_word(call->peer->user->name));
}

static void acl_log(sim_call *call) {
    size_t count = 0;
    if (call->argc > 2 && sim_is(call->argv[2], "RESET")) {
        forget_denials(call->server);
        sim_reply_ok(call);
        return;
    }
    for (const sim_denial *each = call->server->denials; each != NULL; each = each->next)
        count++;
    sim_reply_array(call, count);
    for (const sim_denial *each = call->server->denials; each != NULL; each = each->next) {
        sim_reply_map(call, 7);
        sim_reply_word(call, "count");
        sim_reply_integer(call, each->count);
        sim_reply_word(call, "reason");
        sim_reply_word(call, each->reason);
        sim_reply_word(call, "context");
        sim_reply_word(call, each->context);
        sim_reply_word(call, "object");
        sim_reply_bytes(call, sim_of(each->object));
        sim_reply_word(call, "username");
        sim_reply_bytes(call, sim_of(each->user));
        sim_reply_word(call, "age-seconds");
        sim_reply_word(call, "0");
        sim_reply_word(call, "client-info");
        sim_reply_word(call, "");
    }
}

/* ---------------------------------------------------------------- Commands */

static void acl_whoami(sim_call *call) { sim_reply_word(call, call->peer->user->name); }

/* Return whether the peer is subscribed to a channel that its user may no longer use. */
static bool hears_too_much(const sim_peer *peer) {
    for (int i = 0; i < SIM_CHANNEL_BUCKETS; i++)
        for (const sim_channel *at = peer->server->channels[i]; at != NULL; at = at->next)
            for (size_t who = 0; who < at->count; who++)
                if (at->peers[who] == peer &&
                    !matches(&peer->user->channels, sim_of(at->name), at->kind == 'p'))
                    return true;
    return false;
}

static void acl_setuser(sim_call *call) {
    sim_user *user = sim_user_make(call->server, call->argv[2]);
    for (int i = 3; i < call->argc; i++) {
        sim_bytes rule = call->argv[i];
        if (sim_user_rule(call->server, user, rule))
            continue;
        bool command = rule.length > 0 && strchr("+-", *rule.bytes) != NULL;
        sim_reply_error(call, "ERR Error in ACL SETUSER modifier '%.*s': %s", (int)rule.length,
                        rule.bytes,
                        command ? "Unknown command or category name in ACL" : "Syntax error");
        return;
    }
    for (sim_peer *peer = call->server->first_peer; peer != NULL; peer = peer->after)
        if (peer->user == user && hears_too_much(peer))
            sim_hang_up(peer);
    sim_reply_ok(call);
}

static void delete_user(sim_redis *server, sim_user *user) {
    sim_user **at = &server->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    for (sim_peer *peer = server->first_peer; peer != NULL; peer = peer->after) {
        if (peer->user != user)
            continue;
        peer->user = NULL;
        sim_hang_up(peer);
    }
    free_user(user);
}

static void acl_deluser(sim_call *call) {
    int64_t deleted = 0;
    for (int i = 2; i < call->argc; i++) {
        sim_user *user = find_user(call->server, call->argv[i]);
        if (user == NULL || user == call->server->users)
            continue;
        delete_user(call->server, user);
        deleted++;
    }
    sim_reply_integer(call, deleted);
}

/* Log the peer in; otherwise answer the call. */
static bool log_in(sim_call *call, sim_bytes name, sim_bytes password) {
    sim_user *user = find_user(call->server, name);
    sim_bytes known;
    bool good = user != NULL && user->on && user->nopass;
    for (size_t at = 0; user != NULL && (known = next_word(&user->passwords, &at)).bytes != NULL;)
        good = good || (user->on && sim_same(known, password));
    if (good) {
        call->peer->user = user;
        return true;
    }
    log_denial(call, "auth", sim_word("AUTH"), name);
    sim_reply_error(call, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

static void auth(sim_call *call) {
    if (call->argc > 3) {
        sim_reply_error(call, "ERR syntax error");
    } else if (call->argc == 2 && call->server->users->nopass) {
        sim_reply_error(call, "ERR AUTH <password> called without any password configured for the "
                              "default user. Are you sure your configuration is correct?");
    } else if (log_in(call, call->argc == 3 ? call->argv[1] : sim_word("default"),
                      call->argv[call->argc - 1])) {
        sim_reply_ok(call);
    }
}

static void greet(sim_call *call) {
    const sim_redis *server = call->server;
    sim_reply_map(call, 7);
    sim_reply_word(call, "server");
    sim_reply_word(call, "redis");
    sim_reply_word(call, "version");
    sim_reply_word(call, server->version);
    sim_reply_word(call, "proto");
    sim_reply_integer(call, call->peer->resp);
    sim_reply_word(call, "id");
    sim_reply_integer(call, call->peer->id);
    sim_reply_word(call, "mode");
    sim_reply_word(call, sim_mode(server));
    sim_reply_word(call, "role");
    sim_reply_word(call, server->replica ? "replica" : "master");
    sim_reply_word(call, "modules");
    sim_reply_array(call, 0);
}

static void hello(sim_call *call) {
    sim_peer *peer = call->peer;
    int64_t resp = peer->resp;
    int name = 0;
    if (call->argc > 1 && (!sim_number(call->argv[1], &resp) || resp < 2 || resp > 3)) {
        sim_reply_error(call, "NOPROTO unsupported protocol version");
        return;
    }
    for (int i = 2; i < call->argc; i++) {
        if (sim_is(call->argv[i], "AUTH") && i + 2 < call->argc) {
            if (!log_in(call, call->argv[i + 1], call->argv[i + 2]))
                return;
            i += 2;
        } else if (sim_is(call->argv[i], "SETNAME") && i + 1 < call->argc) {
            name = ++i;
        } else {
            sim_reply_error(call, "ERR Syntax error in HELLO option '%.*s'",
                            (int)call->argv[i].length, call->argv[i].bytes);
            return;
        }
    }
    if (peer->user == NULL) {
        sim_reply_error(call,
                        "NOAUTH HELLO must be called with the client already authenticated, "
                        "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                        "authenticate the client and select the RESP protocol version at the "
                        "same time");
        return;
    }
    if (name > 0 && !sim_peer_name(call, call->argv[name]))
        return;
    peer->resp = (int)resp;
    greet(call);
}

enum { ANYTIME = SIM_NOSCRIPT | SIM_LOADABLE };

const sim_command sim_acl_commands[] = {
    {"auth", auth, -2, ANYTIME | SIM_BUSYABLE | SIM_NOAUTH | SIM_SENTINEL, 0, 0, 0},
    {"hello", hello, -1, ANYTIME | SIM_BUSYABLE | SIM_NOAUTH | SIM_SENTINEL, 0, 0, 0},
    {"acl", NULL, -2, ANYTIME | SIM_GROUP | SIM_SENTINEL, 0, 0, 0},
    {"acl|whoami", acl_whoami, 2, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {"acl|setuser", acl_setuser, -3, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {"acl|deluser", acl_deluser, -3, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {"acl|log", acl_log, -2, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};
