#pragma once
// The CUDA runtime over the emulator's driver, as far as emitted files call it: they compile as C++ with
// device/prelude.hpp ahead of them, and UNISONO_EMULATED_LAUNCH(kernel) behind.

#include <cuda.h>
#include <dlfcn.h>

#include <map>

#include "emulator/machine.hpp"

#define CUDART_VERSION 13000

// Macros of the device code, which is ahead: here they are members of cudaLaunchConfig_t
#undef gridDim
#undef blockDim

extern "C" CUfunction unisono_emulated_function(const unisono_emulator::Entry* entry);

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDeviceFunction = 98
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
  cudaDevAttrComputeCapabilityMinor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
  cudaFuncAttributeNonPortableClusterSizeAllowed = CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
};
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
inline constexpr unsigned long long cudaEnableDefault = 0;

using cudaStream_t = CUstream;
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
using cudaLaunchAttributeID = CUlaunchAttributeID;
inline constexpr auto cudaLaunchAttributeClusterDimension = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
inline constexpr auto cudaLaunchAttributeCooperative = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
inline constexpr auto cudaLaunchAttributeProgrammaticStreamSerialization =
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  CUlaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

namespace unisono_emulated_runtime {

inline cudaError_t error_of(CUresult result) { return static_cast<cudaError_t>(result); }

// The device's primary context, as the runtime makes it current
inline cudaError_t start() {
  static const CUresult started = [] {
    CUdevice device = 0;
    CUcontext context = nullptr;
    if (const CUresult r = cuInit(0); r != CUDA_SUCCESS) return r;
    if (const CUresult r = cuDeviceGet(&device, 0); r != CUDA_SUCCESS) return r;
    if (const CUresult r = cuDevicePrimaryCtxRetain(&context, device); r != CUDA_SUCCESS) return r;
    return cuCtxPushCurrent(context);
  }();
  return error_of(started);
}

inline std::map<const void*, CUfunction>& functions() {
  static std::map<const void*, CUfunction> all;
  return all;
}

inline bool known(const void* kernel, const unisono_emulator::Entry& entry) {
  return functions()[kernel] = unisono_emulated_function(&entry), true;
}

}  // namespace unisono_emulated_runtime

#define UNISONO_EMULATED_LAUNCH(name) \
  UNISONO_EMULATED_KERNEL(name)       \
  static const bool name##__known =   \
      unisono_emulated_runtime::known(reinterpret_cast<const void*>(&name), name##__entry);

inline cudaError_t cudaGetDevice(int* device) { return *device = 0, unisono_emulated_runtime::start(); }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return unisono_emulated_runtime::error_of(
      cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device));
}
inline const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  cuGetErrorString(static_cast<CUresult>(error), &text);
  return text == nullptr ? "an error of the emulator" : text;
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = unisono_emulated_runtime::start()) return error;
  CUdeviceptr address = 0;
  const CUresult result = cuMemAlloc(&address, bytes);
  *memory = reinterpret_cast<void*>(address);
  return unisono_emulated_runtime::error_of(result);
}
inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return unisono_emulated_runtime::error_of(
      cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(memory), static_cast<unsigned char>(value), bytes, nullptr));
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return unisono_emulated_runtime::error_of(
      cuMemcpy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes));
}
inline cudaError_t cudaDeviceSynchronize() { return unisono_emulated_runtime::error_of(cuCtxSynchronize()); }
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
  *function = ::dlsym(RTLD_DEFAULT, name);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute which, int value) {
  const auto found = unisono_emulated_runtime::functions().find(kernel);
  if (found == unisono_emulated_runtime::functions().end()) return cudaErrorInvalidDeviceFunction;
  return unisono_emulated_runtime::error_of(
      cuFuncSetAttribute(found->second, static_cast<CUfunction_attribute>(which), value));
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** parameters) {
  const auto found = unisono_emulated_runtime::functions().find(kernel);
  if (found == unisono_emulated_runtime::functions().end()) return cudaErrorInvalidDeviceFunction;
  CUlaunchConfig c{};
  c.gridDimX = config->gridDim.x, c.gridDimY = config->gridDim.y, c.gridDimZ = config->gridDim.z;
  c.blockDimX = config->blockDim.x, c.blockDimY = config->blockDim.y, c.blockDimZ = config->blockDim.z;
  c.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  c.hStream = config->stream;
  CUlaunchAttribute attributes[4]{};
  for (unsigned i = 0; i < config->numAttrs; ++i)
    attributes[i].id = config->attrs[i].id, attributes[i].value = config->attrs[i].val;
  c.attrs = attributes, c.numAttrs = config->numAttrs;
  return unisono_emulated_runtime::error_of(cuLaunchKernelEx(&c, found->second, parameters, nullptr));
}
