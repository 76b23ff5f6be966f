# The CUDA toolkit is optional: with it, the CUDA backend is built (of the toolkit it needs cuda.h alone; the driver and NVRTC
# are loaded when they are used), and the device headers under kernels/ are compiled as a test.
set(UNISONO_CUDA "AUTO" CACHE STRING "Use the CUDA toolkit: ON, OFF or AUTO (if one is found)")
set_property(CACHE UNISONO_CUDA PROPERTY STRINGS AUTO ON OFF)

set(UNISONO_WITH_CUDA OFF)
if(NOT UNISONO_CUDA STREQUAL "OFF")
  # as scripts/setup.sh installs it
  file(GLOB unisono_pip_cuda ${UNISONO_DEPS_DIR}/lib/python*/site-packages/nvidia/cu13/bin)
  find_program(UNISONO_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin PATHS ${unisono_pip_cuda})
  if(UNISONO_NVCC)
    execute_process(COMMAND ${UNISONO_NVCC} --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" nvcc_version "${nvcc_version}")
    file(REAL_PATH ${UNISONO_NVCC} nvcc_file)
    cmake_path(GET nvcc_file PARENT_PATH nvcc_folder)
    find_path(UNISONO_CUDA_INCLUDE cuda.h HINTS ${nvcc_folder}/../include ${nvcc_folder}/../targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include)
    if(CMAKE_MATCH_1 GREATER_EQUAL 12 AND UNISONO_CUDA_INCLUDE)
      set(UNISONO_WITH_CUDA ON)
    endif()
  endif()
  if(UNISONO_CUDA STREQUAL "ON" AND NOT UNISONO_WITH_CUDA)
    message(FATAL_ERROR "UNISONO_CUDA=ON, but no nvcc of CUDA 12 or later with its cuda.h was found (looked at PATH, CUDA_HOME and /usr/local/cuda). "
                        "Install the toolkit, set UNISONO_NVCC, or use UNISONO_CUDA=AUTO.")
  endif()
endif()
message(STATUS "CUDA: ${UNISONO_WITH_CUDA} ${UNISONO_NVCC} ${nvcc_version}")
