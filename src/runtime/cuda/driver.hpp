#pragma once
/// The CUDA driver's C interface, loaded when it is first needed: nothing of Unisono links a CUDA library, so that it
/// starts on any machine. Included by .cpp files of the CUDA backend and its tests only.

#include <cuda.h>

#include <string>
#include <string_view>

namespace unisono::cuda {

// The macros of cuda.h turn a name into that of its version (cuMemAlloc → cuMemAlloc_v2), here and where it is called.
#define UNISONO_DRIVER_FUNCTIONS(F)              \
  F(cuDriverGetVersion)                          \
  F(cuGetErrorName)                              \
  F(cuGetErrorString)                            \
  F(cuInit)                                      \
  F(cuDeviceGetCount)                            \
  F(cuDeviceGet)                                 \
  F(cuDeviceGetName)                             \
  F(cuDeviceGetAttribute)                        \
  F(cuDevicePrimaryCtxRetain)                    \
  F(cuDevicePrimaryCtxGetState)                  \
  F(cuCtxGetId)                                  \
  F(cuCtxGetCurrent)                             \
  F(cuCtxPushCurrent)                            \
  F(cuCtxPopCurrent)                             \
  F(cuCtxSynchronize)                            \
  F(cuModuleLoadData)                            \
  F(cuModuleUnload)                              \
  F(cuModuleGetFunction)                         \
  F(cuFuncSetAttribute)                          \
  F(cuFuncGetAttribute)                          \
  F(cuOccupancyMaxActiveClusters)                \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  F(cuTensorMapEncodeTiled)                      \
  F(cuTensorMapEncodeIm2col)                     \
  F(cuTensorMapReplaceAddress)                   \
  F(cuLaunchKernel)                              \
  F(cuLaunchKernelEx)                            \
  F(cuMemAlloc)                                  \
  F(cuMemFree)                                   \
  F(cuMemGetInfo)                                \
  F(cuMemcpy)                                    \
  F(cuMemcpyAsync)                               \
  F(cuMemsetD8Async)                             \
  F(cuPointerGetAttribute)                       \
  F(cuStreamCreate)                              \
  F(cuStreamDestroy)                             \
  F(cuStreamQuery)                               \
  F(cuStreamSynchronize)                         \
  F(cuStreamGetId)                               \
  F(cuStreamIsCapturing)                         \
  F(cuThreadExchangeStreamCaptureMode)           \
  F(cuEventCreate)                               \
  F(cuEventRecord)                               \
  F(cuEventDestroy)                              \
  F(cuStreamBeginCapture)                        \
  F(cuStreamEndCapture)                          \
  F(cuGraphInstantiate)                          \
  F(cuGraphLaunch)                               \
  F(cuGraphGetNodes)                             \
  F(cuGraphCreate)                               \
  F(cuGraphAddKernelNode)                        \
  F(cuGraphAddChildGraphNode)                    \
  F(cuGraphKernelNodeSetAttribute)               \
  F(cuGraphKernelNodeGetAttribute)               \
  F(cuGraphKernelNodeGetParams)                  \
  F(cuGraphNodeGetType)                          \
  F(cuGraphExecDestroy)                          \
  F(cuGraphRetainUserObject)                     \
  F(cuUserObjectCreate)                          \
  F(cuUserObjectRelease)                         \
  F(cuGraphDestroy)

struct Driver {
#define UNISONO_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a name
  UNISONO_DRIVER_FUNCTIONS(UNISONO_DRIVER_MEMBER)
#undef UNISONO_DRIVER_MEMBER
  CUresult (*cuStreamGetCaptureInfo_v2)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                        std::size_t*) = nullptr;  ///< that of CUDA 12: cuda.h of CUDA 13 names another
  CUresult (*cuFuncGetParamInfo)(CUfunction, std::size_t, std::size_t*,
                                 std::size_t*) = nullptr;  ///< CUDA 12.4, else null
#if CUDA_VERSION >= 12030
  CUresult (*add_edges)(CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*,
                        std::size_t) = nullptr;  ///< cuGraphAddDependencies_v2, of CUDA 12.3; else null, as the next
  CUresult (*get_edges)(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, std::size_t*) = nullptr;
#endif
  CUresult (*cuEventElapsedTime)(float*, CUevent, CUevent) = nullptr;  ///< whichever version the driver has, else null
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
