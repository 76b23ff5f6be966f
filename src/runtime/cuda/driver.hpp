#pragma once
/// The CUDA driver's C interface, loaded when it is first needed: nothing of Unisono links a CUDA library, so that it
/// starts on any machine. Included by .cpp files of the CUDA backend and its tests only.

#include <string>
#include <string_view>

#include "runtime/cuda/driver_api.hpp"

namespace unisono::cuda {

struct Driver {
#define UNISONO_DRIVER_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  UNISONO_DRIVER_FUNCTIONS(UNISONO_DRIVER_MEMBER)
  UNISONO_NEWER_DRIVER_FUNCTIONS(UNISONO_DRIVER_MEMBER)  ///< null in a driver that lacks them
#undef UNISONO_DRIVER_MEMBER
};

/// Loads and initialises the driver at the first call. Throws DeviceError that says what is missing.
const Driver& driver();

/// True in a process that was forked from one in which the driver was loaded: CUDA cannot be used there, and calls into
/// the driver may hang. One load of a flag.
bool is_forked();
/// Throws DeviceError if the process is such a one.
void check_not_forked();

/// Throws DeviceError with `what` ("loading the kernel"), the driver's name of the error and its text, unless `result`
/// is CUDA_SUCCESS. Errors that leave the context unusable are reported as such.
void check(CUresult result, std::string_view what);

/// True for errors after which every call into the context fails.
bool is_sticky(CUresult result);

/// "CUDA_ERROR_INVALID_VALUE: invalid argument"
std::string error_text(CUresult result);

}  // namespace unisono::cuda
