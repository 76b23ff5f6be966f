# Libraries of others. scripts/setup.sh installs all of them; UNISONO_DEPS_DIR is where it puts what the distribution lacks.

set(UNISONO_DEPS_DIR "$ENV{UNISONO_DEPS_DIR}" CACHE PATH "Prefix that scripts/setup.sh makes")
if(NOT UNISONO_DEPS_DIR AND EXISTS "$ENV{HOME}/.cache/unisono/deps/venv")
  set(UNISONO_DEPS_DIR "$ENV{HOME}/.cache/unisono/deps/venv" CACHE PATH "" FORCE)
endif()
list(APPEND CMAKE_PREFIX_PATH ${UNISONO_DEPS_DIR}-tools)  # headers that it fetched without root

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN takes its number of threads from OpenMP
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)

# oneDNN 3 (the API of version 2 differs)
set(UNISONO_DNNL_DIR "${UNISONO_DEPS_DIR}" CACHE PATH "Prefix with oneDNN; scripts/onednn.sh builds a newer one than scripts/setup.sh installs")
if(NOT UNISONO_DNNL_DIR STREQUAL "${UNISONO_DNNL_SOUGHT}")
  unset(UNISONO_DNNL_INCLUDE CACHE)
  unset(UNISONO_DNNL_LIBRARY CACHE)
  set(UNISONO_DNNL_SOUGHT ${UNISONO_DNNL_DIR} CACHE INTERNAL "Where it was looked for")
endif()
find_path(UNISONO_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp HINTS ${UNISONO_DNNL_DIR}/include)
find_library(UNISONO_DNNL_LIBRARY NAMES dnnl HINTS ${UNISONO_DNNL_DIR}/lib NO_DEFAULT_PATH)
find_library(UNISONO_DNNL_LIBRARY NAMES dnnl)
if(NOT UNISONO_DNNL_INCLUDE OR NOT UNISONO_DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN 3 was not found. Run scripts/setup.sh, or set UNISONO_DNNL_DIR to a prefix that holds "
                      "include/oneapi/dnnl/dnnl.hpp and lib/libdnnl.so.")
endif()
file(STRINGS ${UNISONO_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h dnnl_major REGEX "DNNL_VERSION_MAJOR")
string(REGEX MATCH "[0-9]+" dnnl_major "${dnnl_major}")
if(dnnl_major LESS 3)
  message(FATAL_ERROR "oneDNN ${dnnl_major} at ${UNISONO_DNNL_INCLUDE}: Unisono needs version 3. Run scripts/setup.sh.")
endif()
add_library(unisono_dnnl INTERFACE)
target_include_directories(unisono_dnnl SYSTEM INTERFACE ${UNISONO_DNNL_INCLUDE})
target_link_libraries(unisono_dnnl INTERFACE ${UNISONO_DNNL_LIBRARY})

# SQLite keeps measured plans. Programs that are carried to other machines (UNISONO_CARRIED) take it along.
find_package(SQLite3 REQUIRED)
find_library(UNISONO_SQLITE_ARCHIVE NAMES libsqlite3.a)
add_library(unisono_sqlite INTERFACE)
target_include_directories(unisono_sqlite SYSTEM INTERFACE ${SQLite3_INCLUDE_DIRS})
if(UNISONO_SQLITE_ARCHIVE)
  target_link_libraries(unisono_sqlite INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:UNISONO_CARRIED>>,${UNISONO_SQLITE_ARCHIVE},${SQLite3_LIBRARIES}>
                        Threads::Threads ${CMAKE_DL_LIBS} m)
else()
  target_link_libraries(unisono_sqlite INTERFACE ${SQLite3_LIBRARIES})
endif()

find_package(PkgConfig)
