# holdfast::strict: the warnings for this project's C. It is never exported, and
# SWIG's output does without it. holdfast::hardened: options, for SWIG's output too,
# that make a mistake harder to exploit; tests/hardened checks the built files.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
check_c_compiler_flag(-fcf-protection HOLDFAST_CF_PROTECTION) # x86 only

add_library(holdfast_hardened INTERFACE)
add_library(holdfast::hardened ALIAS holdfast_hardened)
target_compile_options(holdfast_hardened INTERFACE
    -fstack-protector-strong
    $<$<BOOL:${HOLDFAST_CF_PROTECTION}>:-fcf-protection>)
if(NOT APPLE)
    target_link_options(holdfast_hardened INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
endif()

add_library(holdfast_strict INTERFACE)
add_library(holdfast::strict ALIAS holdfast_strict)

target_compile_features(holdfast_strict INTERFACE c_std_11)
target_compile_definitions(holdfast_strict INTERFACE _GNU_SOURCE)
target_compile_options(holdfast_strict INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wwrite-strings -Wformat=2 -Wvla
    -Wstrict-prototypes -Wmissing-prototypes)
target_link_libraries(holdfast_strict INTERFACE holdfast::hardened)
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
    # It needs an optimising compiler, and blinds the sanitizers.
    target_compile_options(holdfast_hardened INTERFACE
        $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
endif()
