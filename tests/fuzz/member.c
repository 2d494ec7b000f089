/*
 * Members of the queue: the scripts read exactly the values that C writes, for every owner;
 * and no foreign member makes a script fail. The reader is the very
 * text of _member.lua, run by the Lua that Redis uses.
 */
#include "fuzz.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>

#include "protocol/requests.h"

/* parse(member), with its results on the stack. */
static lua_State *parse(const void *member, size_t length) {
    static lua_State *lua;
    if (lua == NULL) {
        lua = luaL_newstate();
        luaL_openlibs(lua);
        FILE *file = fopen(HOLDFAST_MEMBER_LUA, "r");
        char text[8192];
        promise(file != NULL);
        size_t count = fread(text, 1, sizeof text - 32, file);
        fclose(file);
        strcpy(text + count, "\nreturn parse");
        promise(luaL_dostring(lua, text) == 0 && lua_isfunction(lua, -1));
    }
    lua_settop(lua, 1);
    lua_pushvalue(lua, 1);
    lua_pushlstring(lua, member, length);
    promise(lua_pcall(lua, 1, 5, 0) == 0);
    return lua;
}

static bool is(lua_State *lua, int at, const void *bytes, size_t length) {
    size_t found;
    const char *text = lua_tolstring(lua, at, &found);
    return text != NULL && found == length && memcmp(text, bytes, length) == 0;
}

static int64_t take_number(input *from, int64_t most) {
    uint64_t value = 0;
    for (unsigned count = take_byte(from) % 9; count > 0; count--)
        value = value << 8 | take_byte(from);
    return (int64_t)(value % (uint64_t)most) + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size); /* as it is: no error */

    input from = {data, size};
    unsigned flags = take_byte(&from);
    int64_t lease = take_number(&from, HF_LEASE_MAX), timeout = take_number(&from, INT64_MAX);
    size_t owner_length = from.left < HF_OWNER_MAX ? from.left : HF_OWNER_MAX;
    if (owner_length == 0)
        return 0;
    static const char id[] = "fedcba98765432100123456789abcdef";
    static const char channel[] = "hf:0123456789abcdef0123456789abcdef";
    hf_ask ask = {.id = id,
                  .owner = (const char *)from.at,
                  .owner_length = owner_length,
                  .lease_ms = flags & 1 ? HF_NEVER : lease,
                  .reentrant = flags & 2,
                  .channel = channel,
                  .channel_length = strlen(channel),
                  .timeout_ms = flags & 4 ? HF_FOREVER : timeout};
    hf_bytes member;
    hf_bytes_init(&member);
    hf_ask_member(&ask, &member);
    promise(!member.failed);

    lua_State *lua = parse(member.data, member.length);
    promise(is(lua, 2, id, HF_ID_LENGTH));
    promise(is(lua, 3, channel, strlen(channel)));
    promise(is(lua, 4, ask.owner, owner_length));
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)(flags & 1 ? 0 : lease));
    promise(is(lua, 5, digits, strlen(digits)));
    promise(lua_tonumber(lua, 6) == (double)(flags & 4 ? 0 : timeout));
    hf_bytes_free(&member);
    return 0;
}
