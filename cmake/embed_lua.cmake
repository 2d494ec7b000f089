# cmake -DSOURCE_DIR=… -DOUTPUT=… -P embed_lua.cmake
#
# Turns the Lua scripts of SOURCE_DIR into one C file. A line `--@include NAME`
# stands for the text of the file NAME. Files that begin with `_` are such
# parts; all others are scripts. The server gets a script without comment lines,
# blank lines and indentation, and knows it by its SHA1.
#
# Always handle a text as a quoted string, never as a list: Lua is full of
# characters that CMake takes for list syntax.

function(read_script path result)
    file(READ "${path}" text)
    set(text "\n${text}\n")
    while(text MATCHES "\n[ \t]*--@include[ \t]+([A-Za-z0-9_.]+)[ \t]*\n")
        set(line "${CMAKE_MATCH_0}")
        read_script("${SOURCE_DIR}/${CMAKE_MATCH_1}" part)
        string(REPLACE "${line}" "\n${part}\n" text "${text}")
    endwhile()
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(strip_script name text result)
    if(text MATCHES "--\\[=*\\[")
        message(FATAL_ERROR "${name}: long comments are not supported")
    endif()
    string(REGEX REPLACE "[ \t\r]+\n" "\n" text "${text}")
    string(REGEX REPLACE "\n[ \t]+" "\n" text "${text}")
    string(REGEX REPLACE "\n--[^\n]*" "" text "${text}")
    string(REGEX REPLACE "\n\n+" "\n" text "${text}")
    string(STRIP "${text}" text)
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(quote_for_c text result)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "?" "\\?" text "${text}") # no trigraphs
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    set(${result} "\"${text}\"" PARENT_SCOPE)
endfunction()

file(GLOB paths "${SOURCE_DIR}/[a-z]*.lua") # in order of name
set(code "/* Made from protocol/ by embed_lua.cmake. */
#include \"protocol/scripts.h\"

/* ISO C promises only 4095 characters; every compiler takes more. */
#pragma GCC diagnostic ignored \"-Woverlength-strings\"
")
foreach(path IN LISTS paths)
    get_filename_component(name "${path}" NAME_WE)
    read_script("${path}" text)
    strip_script("${name}" "${text}" text)
    string(SHA1 sha1 "${text}")
    string(LENGTH "${text}" length)
    quote_for_c("${text}" literal)
    string(APPEND code "
const hf_script hf_script_${name} = {
    \"${sha1}\",
    \"\$7\\r\\nEVALSHA\\r\\n\$40\\r\\n${sha1}\\r\\n\",
    ${literal},
    ${length}};
")
endforeach()
file(WRITE "${OUTPUT}" "${code}")
