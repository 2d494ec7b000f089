# The static hiredis: Hiredis::hiredis. Only the static one will do, because
# libholdfast.so hides it inside.
#
# The install puts this file beside holdfast-config.cmake: programs that link the
# static libholdfast need hiredis too.
find_path(Hiredis_INCLUDE_DIR hiredis/hiredis.h)
find_library(Hiredis_LIBRARY libhiredis.a)
mark_as_advanced(Hiredis_INCLUDE_DIR Hiredis_LIBRARY)

if(Hiredis_INCLUDE_DIR)
    file(STRINGS ${Hiredis_INCLUDE_DIR}/hiredis/hiredis.h Hiredis_VERSION
        REGEX "^#define HIREDIS_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" Hiredis_VERSION "${Hiredis_VERSION}")
    string(REPLACE ";" "." Hiredis_VERSION "${Hiredis_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Hiredis
    REQUIRED_VARS Hiredis_LIBRARY Hiredis_INCLUDE_DIR
    VERSION_VAR Hiredis_VERSION)

if(Hiredis_FOUND AND NOT TARGET Hiredis::hiredis)
    add_library(Hiredis::hiredis STATIC IMPORTED)
    set_target_properties(Hiredis::hiredis PROPERTIES
        IMPORTED_LOCATION ${Hiredis_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${Hiredis_INCLUDE_DIR})
endif()
