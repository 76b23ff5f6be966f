# Compiler options of our own targets, and the one function that makes a folder of src/ a library.

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(PROJECT_IS_TOP_LEVEL)
  find_program(UNISONO_CCACHE ccache)
  if(UNISONO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${UNISONO_CCACHE})
  endif()
endif()

add_library(unisono_options INTERFACE)
target_compile_features(unisono_options INTERFACE cxx_std_20)
target_compile_options(unisono_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  # GCC 12 warns of overlap inside std::string operator+ (GCC bug 105651)
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # and GCC 13 of overruns in copies of std::vector that are not there
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>
  # IEEE semantics everywhere: results are bitwise repeatable; a·b + c is fused only where the graph says fma
  -ffp-contract=off
  $<$<BOOL:${UNISONO_WERROR}>:-Werror>)
if(UNISONO_SANITIZE)
  target_compile_definitions(unisono_options INTERFACE UNISONO_SANITIZED)  # for tests that are long
  target_compile_options(unisono_options INTERFACE -fsanitize=${UNISONO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(unisono_options INTERFACE -fsanitize=${UNISONO_SANITIZE})
endif()
if(UNISONO_FUZZ)
  # coverage of the libraries under test, none of the tests themselves
  target_compile_options(unisono_options INTERFACE $<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-fsanitize=fuzzer-no-link>)
endif()

# A release compiles what plans and prints at -O1, in three quarters of the time of -O3: it runs once a network and walks small
# graphs. What runs again and again, loops over elements and launches, is HOT and keeps -O3.
set(unisono_planning_level $<$<CONFIG:Release>:-O1>)
set(unisono_hot_level $<$<CONFIG:Release>:-O3>)

# unisono_hot(<sources>…): hot sources of a folder that is not
function(unisono_hot)
  set_source_files_properties(${ARGN} PROPERTIES UNISONO_HOT ON)
  if(NOT UNISONO_JOIN)  # else unisono_join() compiles them together
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS ${unisono_hot_level})
  endif()
endfunction()

# unisono_folder(<name> [APART] [HOT] SOURCES … DEPENDS … [PRIVATE_DEPENDS …]): the library unisono_<name> of the folder at hand.
# DEPENDS are the only folders that it may include (tests/layering.py checks the #include lines against this). APART: it is no part
# of the library that is installed. HOT: it keeps -O3.
function(unisono_folder name)
  cmake_parse_arguments(ARG "APART;HOT" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(unisono_${name} STATIC ${ARG_SOURCES})
  if(NOT ARG_HOT)
    target_compile_options(unisono_${name} PRIVATE ${unisono_planning_level})
  endif()
  target_include_directories(unisono_${name} PUBLIC
    $<BUILD_INTERFACE:${unisono_SOURCE_DIR}/include> $<BUILD_INTERFACE:${unisono_SOURCE_DIR}/src>)
  target_link_libraries(unisono_${name} PUBLIC ${ARG_DEPENDS} PRIVATE unisono_options ${ARG_PRIVATE_DEPENDS})
  if(ARG_APART)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY UNISONO_FOLDERS unisono_${name})
  list(FILTER ARG_PRIVATE_DEPENDS EXCLUDE REGEX "^unisono_(support|ir|passes|plan|codegen|jit|reference|runtime|cpu|cuda|network)")
  set_property(GLOBAL APPEND PROPERTY UNISONO_LIBRARIES ${ARG_PRIVATE_DEPENDS})
endfunction()
