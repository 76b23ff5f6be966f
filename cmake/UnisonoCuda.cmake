# The CUDA toolkit is optional. The library and the command are built without it: they declare what they use of the driver and
# of NVRTC, and load both when they are used. With nvcc, the device headers under kernels/ and the CUDA examples are compiled as tests.
set(UNISONO_CUDA "AUTO" CACHE STRING "Tests and examples that nvcc compiles: ON, OFF or AUTO (if it is found)")
set_property(CACHE UNISONO_CUDA PROPERTY STRINGS AUTO ON OFF)

set(UNISONO_WITH_NVCC OFF)
# NVIDIA's packages for Python, as scripts/setup.sh installs them, alone or with PyTorch
file(GLOB unisono_pip_cuda ${UNISONO_DEPS_DIR}*/lib/python*/site-packages/nvidia/cu1*)
if(NOT UNISONO_CUDA STREQUAL "OFF")
  list(TRANSFORM unisono_pip_cuda APPEND /bin OUTPUT_VARIABLE unisono_pip_programs)
  find_program(UNISONO_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin PATHS ${unisono_pip_programs})
  if(UNISONO_NVCC)
    execute_process(COMMAND ${UNISONO_NVCC} --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" nvcc_version "${nvcc_version}")
    if(CMAKE_MATCH_1 GREATER_EQUAL 12)
      set(UNISONO_WITH_NVCC ON)
    endif()
    file(REAL_PATH ${UNISONO_NVCC} nvcc_file)
    cmake_path(GET nvcc_file PARENT_PATH nvcc_folder)
  endif()
  if(UNISONO_CUDA STREQUAL "ON" AND NOT UNISONO_WITH_NVCC)
    message(FATAL_ERROR "UNISONO_CUDA=ON, but no nvcc of CUDA 12 or later was found (looked at PATH, CUDA_HOME and /usr/local/cuda). "
                        "Install the toolkit, set UNISONO_NVCC, or use UNISONO_CUDA=AUTO. The library does not need it.")
  endif()
endif()
# Headers, with which tests compare our own declarations, and of which the peers of the GPU benchmark are built
list(TRANSFORM unisono_pip_cuda APPEND /include OUTPUT_VARIABLE unisono_pip_includes)
find_path(UNISONO_CUDA_INCLUDE cuda.h HINTS ${nvcc_folder}/../include ${nvcc_folder}/../targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include
          PATHS /usr/local/cuda/include ${unisono_pip_includes})
message(STATUS "nvcc: ${UNISONO_WITH_NVCC} ${UNISONO_NVCC} ${nvcc_version}; cuda.h: ${UNISONO_CUDA_INCLUDE}")
