# unisono_add_kernels: kernels that are chosen when a program is built, as a part of it. There is nothing to compile at run
# time, and the program needs nothing of Unisono's.
#
#   unisono_add_kernels(TARGET NAME name EPILOGUE file GEMM|CONV shape
#                       [PLAN plan] [ARCHITECTURES 90a …] [CUTLASS folder])
#
# Adds to TARGET, a library or program of this folder, the kernel of an epilogue's text and a shape, as `unisono emit` writes
# it, and the host functions of NAME.h, which TARGET's own sources and whoever links it can include. The text is read again
# where it has changed. ARCHITECTURES: those of GPUs, as nvcc knows them; if none is given, that of PLAN's arch=, with
# portable code for later ones behind sm80, else 90a. CUTLASS: the folder with include/cutlass, for a PLAN of
# family=cutlass_evt; else UNISONO_CUTLASS, a variable of CMake or the environment.

function(_unisono_find_nvcc)
  if(CMAKE_CUDA_COMPILER AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
    set(UNISONO_KERNELS_NVCC "${CMAKE_CUDA_COMPILER}" CACHE FILEPATH "nvcc, for unisono_add_kernels")
  endif()
  find_program(UNISONO_KERNELS_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin DOC "nvcc, for unisono_add_kernels")
  if(NOT UNISONO_KERNELS_NVCC)
    message(FATAL_ERROR "unisono_add_kernels: kernels are compiled by nvcc of CUDA 12.3 or later, and none was found (looked at "
                        "CMAKE_CUDA_COMPILER, PATH, CUDA_HOME, CUDA_PATH and /usr/local/cuda). Install the CUDA toolkit, or set "
                        "UNISONO_KERNELS_NVCC.")
  endif()
  execute_process(COMMAND ${UNISONO_KERNELS_NVCC} --version OUTPUT_VARIABLE version ERROR_VARIABLE version RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT version MATCHES "release ([0-9]+\\.[0-9]+)" OR CMAKE_MATCH_1 VERSION_LESS 12.3)
    message(FATAL_ERROR "unisono_add_kernels: ${UNISONO_KERNELS_NVCC} is not nvcc of CUDA 12.3 or later: it says\n${version}")
  endif()
  file(REAL_PATH ${UNISONO_KERNELS_NVCC} nvcc)
  cmake_path(GET nvcc PARENT_PATH folder)
  find_library(UNISONO_KERNELS_CUDART NAMES cudart_static cudart libcudart.so.13 libcudart.so.12
               HINTS ${folder}/../lib64 ${folder}/../lib ${folder}/../targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib
               DOC "The CUDA runtime, for unisono_add_kernels")
  if(NOT UNISONO_KERNELS_CUDART)
    message(FATAL_ERROR "unisono_add_kernels: no CUDA runtime (libcudart) was found next to ${nvcc}; set UNISONO_KERNELS_CUDART.")
  endif()
endfunction()

# The flags that only CUTLASS's kernels need
function(_unisono_cutlass_flags given result)
  foreach(folder IN ITEMS "${given}" "${UNISONO_CUTLASS}" "$ENV{UNISONO_CUTLASS}")
    foreach(include IN ITEMS "${folder}" "${folder}/include" "${folder}/source/include")
      if(folder AND EXISTS "${include}/cutlass/version.h")
        # CUTLASS's convolutions for sm_90a include a header of its tools
        set(${result} -DNDEBUG -I "${include}" -I "${include}/../tools/util/include" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  message(FATAL_ERROR "unisono_add_kernels: family=cutlass_evt needs the headers of CUTLASS 4; give CUTLASS folder, or set UNISONO_CUTLASS, "
                      "to a folder with include/cutlass/version.h.")
endfunction()

function(_unisono_check_arguments target)
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "unisono_add_kernels(${target}): unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "unisono_add_kernels(${target}): there is no target of that name; add_library() or add_executable() goes first.")
  endif()
  get_target_property(alias ${target} ALIASED_TARGET)
  get_target_property(type ${target} TYPE)
  if(alias OR type STREQUAL "INTERFACE_LIBRARY" OR type STREQUAL "UTILITY")
    message(FATAL_ERROR "unisono_add_kernels(${target}): the target must be a library or program "
      "that is compiled here, by its own name.")
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  if(NOT folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    message(FATAL_ERROR "unisono_add_kernels(${target}): the target is of ${folder}; call it there, where what it makes can be built.")
  endif()
  foreach(needed IN ITEMS NAME EPILOGUE)
    if(NOT ARG_${needed})
      message(FATAL_ERROR "unisono_add_kernels(${target}): ${needed} is missing")
    endif()
  endforeach()
  get_target_property(names ${target} UNISONO_KERNELS)
  if(ARG_NAME IN_LIST names)
    message(FATAL_ERROR "unisono_add_kernels(${target}): the target has a kernel NAME ${ARG_NAME} already; "
      "its functions would be defined twice.")
  endif()
  if((ARG_GEMM AND ARG_CONV) OR NOT (ARG_GEMM OR ARG_CONV))
    message(FATAL_ERROR "unisono_add_kernels(${target}): give one of GEMM and CONV, a shape such as 4096,4096->4096")
  endif()
  if(NOT TARGET unisono::command)
    message(FATAL_ERROR "unisono_add_kernels(${target}): this Unisono was built without its command, which writes kernels; build it with "
                        "-DUNISONO_TOOLS=ON.")
  endif()
endfunction()

function(unisono_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "NAME;EPILOGUE;GEMM;CONV;PLAN;CUTLASS" "ARCHITECTURES")
  _unisono_check_arguments(${target})
  _unisono_find_nvcc()
  cmake_path(ABSOLUTE_PATH ARG_EPILOGUE BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  if(NOT EXISTS "${ARG_EPILOGUE}")
    message(FATAL_ERROR "unisono_add_kernels(${target}): EPILOGUE ${ARG_EPILOGUE} does not exist")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/unisono_kernels/${target})
  set(files ${folder}/${ARG_NAME}.cu ${folder}/${ARG_NAME}.h)
  set(object ${folder}/${ARG_NAME}${CMAKE_CXX_OUTPUT_EXTENSION})

  if(ARG_GEMM)
    set(shape --gemm ${ARG_GEMM})
  else()
    set(shape --conv ${ARG_CONV})
  endif()
  set(plan "")
  if(ARG_PLAN)
    set(plan --plan ${ARG_PLAN})
  endif()
  add_custom_command(OUTPUT ${files}
    COMMAND unisono::command emit ${ARG_EPILOGUE} ${shape} ${plan} --name ${ARG_NAME} --out ${folder}
    DEPENDS ${ARG_EPILOGUE} unisono::command
    COMMENT "Writing the kernel ${ARG_NAME}" VERBATIM)

  set(flags -std=c++17 -O2 --expt-relaxed-constexpr -Xcompiler=-fPIC)
  if(NOT ARG_ARCHITECTURES)
    set(ARG_ARCHITECTURES 90a)
    if(ARG_PLAN MATCHES "arch=sm([0-9]+a?)")
      set(ARG_ARCHITECTURES ${CMAKE_MATCH_1})
    endif()
    if(ARG_ARCHITECTURES EQUAL 80)
      list(APPEND flags -gencode=arch=compute_80,code=compute_80)
    endif()
  endif()
  foreach(architecture IN LISTS ARG_ARCHITECTURES)
    list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  if(ARG_PLAN MATCHES "family=cutlass")
    _unisono_cutlass_flags("${ARG_CUTLASS}" cutlass)
    list(APPEND flags ${cutlass})
  endif()
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND flags -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  add_custom_command(OUTPUT ${object}
    COMMAND ${UNISONO_KERNELS_NVCC} ${flags} -c ${folder}/${ARG_NAME}.cu -o ${object}
    DEPENDS ${files}
    COMMENT "Compiling the kernel ${ARG_NAME}" VERBATIM)

  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE ${object} ${folder}/${ARG_NAME}.h)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${folder}>)
  find_package(Threads REQUIRED)
  set(further Threads::Threads ${CMAKE_DL_LIBS})
  if(UNIX AND NOT APPLE)
    list(APPEND further rt)
  endif()
  # As target_link_libraries(PRIVATE) does it, which CMake refuses where the caller links without PRIVATE and PUBLIC
  get_target_property(type ${target} TYPE)
  set_property(TARGET ${target} APPEND PROPERTY UNISONO_KERNELS ${ARG_NAME})
  foreach(library IN ITEMS ${UNISONO_KERNELS_CUDART} ${further})
    set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES ${library})
    if(type MATCHES "STATIC|OBJECT")
      set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES $<LINK_ONLY:${library}>)
    endif()
  endforeach()
endfunction()
