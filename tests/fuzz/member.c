/*
 * Members of the queue: the scripts read exactly the columns that C writes, for every owner; and no
 * foreign member makes a script fail. The reader is the text of parse() in _grant.lua itself, run
 * by the Lua that Redis uses.
 */
#include "fuzz.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>

#include "protocol/requests.h"

/* Load the function, and what it needs, cut out of the script. */
static lua_State *start(void) {
    static const char first[] = "local function parse(m)", last[] = "\nend\n";
    static char text[65536] = "local sub = string.sub\n";
    const size_t head = strlen(text);
    FILE *file = fopen(HOLDFAST_GRANT_LUA, "r");
    promise(file != NULL);
    size_t count = fread(text + head, 1, sizeof text - head - 32, file);
    fclose(file);
    text[head + count] = '\0';
    char *from = strstr(text, first);
    promise(from != NULL);
    char *end = strstr(from, last);
    promise(end != NULL);
    strcpy(end + strlen(last), "return parse");
    memmove(text + head, from, strlen(from) + 1);
    lua_State *lua = luaL_newstate();
    luaL_openlibs(lua);
    promise(luaL_dostring(lua, text) == 0 && lua_isfunction(lua, -1));
    return lua;
}

/* Run parse(member): a table at 2; false: it is not a member. */
static bool parse(lua_State **lua_out, const void *member, size_t length) {
    static lua_State *lua;
    if (lua == NULL)
        lua = start();
    *lua_out = lua;
    lua_settop(lua, 1);
    lua_pushvalue(lua, 1);
    lua_pushlstring(lua, member, length);
    promise(lua_pcall(lua, 1, 1, 0) == 0);
    promise(lua_istable(lua, 2) || lua_isnil(lua, 2));
    return lua_istable(lua, 2);
}

static bool is(lua_State *lua, const char *column, const void *bytes, size_t length) {
    size_t found;
    lua_getfield(lua, 2, column);
    const char *text = lua_tolstring(lua, -1, &found);
    return text != NULL && found == length && memcmp(text, bytes, length) == 0;
}

static double number(lua_State *lua, const char *column) {
    lua_getfield(lua, 2, column);
    promise(lua_type(lua, -1) == LUA_TNUMBER);
    return lua_tonumber(lua, -1);
}

static int64_t take_number(input *from, int64_t most) {
    uint64_t value = 0;
    for (unsigned count = take_byte(from) % 9; count > 0; count--)
        value = value << 8 | take_byte(from);
    return (int64_t)(value % ((uint64_t)most + 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char id[] = "fedcba98765432100123456789abcdef";
    static const char client[] = "0123456789abcdef0123456789abcdef";
    static const int64_t short_max = 9999999999; /* ten digits */
    lua_State *lua;

    if (parse(&lua, data, size)) { /* the input itself: no error, and a valid lease */
        double lease = number(lua, "lease");
        promise(lease == 0 || (lease >= 10 && lease <= (double)HF_LEASE_MAX));
        number(lua, "timeout");
        number(lua, "permits");
    }

    input from = {data, size};
    unsigned flags = take_byte(&from);
    bool forever = flags & 4, shared = flags & 2, sharded = flags & 8;
    int64_t lease = flags & 1 ? HF_NEVER : 10 + take_number(&from, HF_LEASE_MAX - 10);
    int64_t timeout = forever ? HF_FOREVER : take_number(&from, INT64_MAX - 1);
    int64_t permits = take_number(&from, short_max);
    int64_t weight = permits > 0 ? take_number(&from, permits) : 0;
    bool heavy = shared && weight > 1;
    size_t owner_length = from.left < HF_OWNER_MAX ? from.left : HF_OWNER_MAX;
    if (owner_length == 0)
        return 0;
    char channel[64];
    int channel_length =
        snprintf(channel, sizeof channel, "%s%s", sharded ? "hf:{stock}:" : "hf:", client);
    hf_ask ask = {.id = id,
                  .owner = (const char *)from.at,
                  .owner_length = owner_length,
                  .lease_ms = lease,
                  .mode = shared ? HF_MODE_SHARED : HF_MODE_EXCLUSIVE,
                  .permits = permits,
                  .weight = weight,
                  .channel = channel,
                  .channel_length = (size_t)channel_length,
                  .timeout_ms = timeout};
    hf_bytes member;
    hf_bytes_init(&member);
    hf_ask_member(&ask, &member);
    promise(!member.failed);
    promise(member.length == (heavy ? 108 : shared ? 98 : 88) + owner_length);

    promise(parse(&lua, member.data, member.length));
    promise(is(lua, "member", member.data, member.length));
    promise(is(lua, "id", id, HF_ID_LENGTH));
    promise(is(lua, "client", client, HF_ID_LENGTH));
    promise(is(lua, "kind", sharded ? "s" : "p", 1));
    promise(is(lua, "mode", shared ? "s" : "x", 1));
    promise(is(lua, "owner", ask.owner, owner_length));
    promise(number(lua, "lease") == (double)(lease == HF_NEVER ? 0 : lease));
    promise(number(lua, "timeout") == (double)(forever || timeout > short_max ? 0 : timeout));
    promise(number(lua, "permits") == (double)(shared ? permits : 0));
    promise(number(lua, "weight") == (double)(heavy ? weight : 1));
    hf_bytes_free(&member);
    return 0;
}
