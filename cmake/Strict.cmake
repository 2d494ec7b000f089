# holdfast::strict: how this project's own C is compiled. Never exported, and
# not for what SWIG generates.
add_library(holdfast_strict INTERFACE)
add_library(holdfast::strict ALIAS holdfast_strict)

target_compile_features(holdfast_strict INTERFACE c_std_11)
target_compile_definitions(holdfast_strict INTERFACE _GNU_SOURCE)
target_compile_options(holdfast_strict INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wwrite-strings -Wformat=2 -Wvla
    -Wstrict-prototypes -Wmissing-prototypes
    -fstack-protector-strong)
if(HOLDFAST_WERROR)
    target_compile_options(holdfast_strict INTERFACE -Werror)
endif()

if(HOLDFAST_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(HOLDFAST_SANITIZE)
    add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
else()
    # Needs an optimising compiler, and blinds the sanitizers.
    target_compile_options(holdfast_strict INTERFACE
        $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
endif()
