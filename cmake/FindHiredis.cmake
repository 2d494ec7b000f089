# The static hiredis: Hiredis::hiredis, and Hiredis::ssl if COMPONENTS ssl asks
# for it. Static only, because it is hidden inside libholdfast.so.
#
# Installed beside holdfast-config.cmake too: programs that link the static
# libholdfast need it again.
find_path(Hiredis_INCLUDE_DIR hiredis/hiredis.h)
find_library(Hiredis_LIBRARY libhiredis.a)
find_library(Hiredis_SSL_LIBRARY libhiredis_ssl.a)
mark_as_advanced(Hiredis_INCLUDE_DIR Hiredis_LIBRARY Hiredis_SSL_LIBRARY)

if(Hiredis_INCLUDE_DIR)
    file(STRINGS ${Hiredis_INCLUDE_DIR}/hiredis/hiredis.h Hiredis_VERSION
        REGEX "^#define HIREDIS_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" Hiredis_VERSION "${Hiredis_VERSION}")
    string(REPLACE ";" "." Hiredis_VERSION "${Hiredis_VERSION}")
endif()
if(Hiredis_SSL_LIBRARY)
    set(Hiredis_ssl_FOUND TRUE)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Hiredis
    REQUIRED_VARS Hiredis_LIBRARY Hiredis_INCLUDE_DIR
    VERSION_VAR Hiredis_VERSION
    HANDLE_COMPONENTS)

if(Hiredis_FOUND AND NOT TARGET Hiredis::hiredis)
    add_library(Hiredis::hiredis STATIC IMPORTED)
    set_target_properties(Hiredis::hiredis PROPERTIES
        IMPORTED_LOCATION ${Hiredis_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${Hiredis_INCLUDE_DIR})
endif()
if(Hiredis_FOUND AND ssl IN_LIST Hiredis_FIND_COMPONENTS AND NOT TARGET Hiredis::ssl)
    find_package(OpenSSL REQUIRED)
    add_library(Hiredis::ssl STATIC IMPORTED)
    # In this order: with --as-needed, what needs OpenSSL must stand before it.
    set_target_properties(Hiredis::ssl PROPERTIES
        IMPORTED_LOCATION ${Hiredis_SSL_LIBRARY}
        INTERFACE_LINK_LIBRARIES "Hiredis::hiredis;OpenSSL::SSL;OpenSSL::Crypto")
endif()
