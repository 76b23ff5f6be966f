# The CUDA toolkit is optional: with it, the CUDA backend is built (of the toolkit it needs cuda.h alone; the driver and NVRTC
# are loaded when they are used), and the device headers under kernels/ are compiled as a test.
set(CODA_CUDA "AUTO" CACHE STRING "Use the CUDA toolkit: ON, OFF or AUTO (if one is found)")
set_property(CACHE CODA_CUDA PROPERTY STRINGS AUTO ON OFF)

set(CODA_WITH_CUDA OFF)
if(NOT CODA_CUDA STREQUAL "OFF")
  find_program(CODA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(CODA_NVCC)
    execute_process(COMMAND ${CODA_NVCC} --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" nvcc_version "${nvcc_version}")
    file(REAL_PATH ${CODA_NVCC} nvcc_file)
    cmake_path(GET nvcc_file PARENT_PATH nvcc_folder)
    find_path(CODA_CUDA_INCLUDE cuda.h HINTS ${nvcc_folder}/../include ${nvcc_folder}/../targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include)
    if(CMAKE_MATCH_1 GREATER_EQUAL 12 AND CODA_CUDA_INCLUDE)
      set(CODA_WITH_CUDA ON)
    endif()
  endif()
  if(CODA_CUDA STREQUAL "ON" AND NOT CODA_WITH_CUDA)
    message(FATAL_ERROR "CODA_CUDA=ON, but no nvcc of CUDA 12 or later with its cuda.h was found (looked at PATH, CUDA_HOME and /usr/local/cuda). "
                        "Install the toolkit, set CODA_NVCC, or use CODA_CUDA=AUTO.")
  endif()
endif()
message(STATUS "CUDA: ${CODA_WITH_CUDA} ${CODA_NVCC} ${nvcc_version}")
