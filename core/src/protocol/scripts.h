/* The Lua scripts of protocol/, embedded by the build. Files that begin with _ are parts of
 * them (cmake/embed_lua.cmake). */
#ifndef HF_SCRIPTS_H
#define HF_SCRIPTS_H

#include <stddef.h>

#define HF_SCRIPT_CALL (sizeof "$7\r\nEVALSHA\r\n$40\r\n\r\n" - 1 + 40)

typedef struct hf_script {
    const char *sha1; /* 40 hex digits */
    const char *call; /* HF_SCRIPT_CALL bytes: EVALSHA and the digest, as they are sent */
    const char *text;
    size_t length;
} hf_script;

extern const hf_script hf_script_acquire;
extern const hf_script hf_script_begin;
extern const hf_script hf_script_break;
extern const hf_script hf_script_cancel;
extern const hf_script hf_script_claim;
extern const hf_script hf_script_heal;
extern const hf_script hf_script_inspect;
extern const hf_script hf_script_leave;
extern const hf_script hf_script_limit;
extern const hf_script hf_script_permissions;
extern const hf_script hf_script_release;
extern const hf_script hf_script_renew;
extern const hf_script hf_script_selftest;
extern const hf_script hf_script_settle;
extern const hf_script hf_script_share;
extern const hf_script hf_script_take;
extern const hf_script hf_script_wait;

#endif
