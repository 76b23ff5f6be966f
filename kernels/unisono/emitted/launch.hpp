#pragma once
// The host's side of an emitted kernel: its one parameter is filled, and the launch enqueued.

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

namespace unisono::emitted {

// Eight bytes of the parameter, at byte `at`, that are the same in every launch
struct Word {
  unsigned at;
  unsigned long long bits;
};
// Where the parameter has the address of an argument, and how many bytes after its beginning that is
struct Place {
  unsigned argument, at;
  unsigned long long ahead;
};
// A tensor map at byte `at`, of an argument
struct Map {
  unsigned argument, at;
  unsigned long long ahead;
  CUtensorMapDataType type;
  unsigned rank;
  cuuint64_t extents[5], strides[4];
  cuuint32_t box[5], steps[5];
  bool im2col;
  int lower[3], upper[3];
  cuuint32_t channels, pixels;
  CUtensorMapSwizzle swizzle;
};
// A pointer that the caller gives: what its address is a multiple of, and whether it may be null
struct Argument {
  unsigned alignment;
  bool optional;
};
// The launch, and which GPUs have its kernel
struct Shape {
  unsigned ctas, threads, cluster;
  size_t shared_bytes;
  bool cooperative;
  int major, minor;  // of the compute capability
  bool exactly;      // of no other: the kernel uses instructions of that architecture alone
};

template <class T>
struct List {
  const T* first;
  unsigned count;
};

// What a host function returns other than 0 and a cudaError_t. Of an argument: less its number.
enum Fault : int {
  kNoArguments = -1,
  kOtherDevice = -2,
  kNoMaps = -3,
  kSmallWorkspace = -4,
  kNull = -1000,
  kMisaligned = -2000,
  kMap = -3000,
};

inline int checked(const List<Argument>& arguments, const void* const* given) {
  for (unsigned i = 0; i < arguments.count; ++i) {
    const Argument& a = arguments.first[i];
    if (given[i] == nullptr && !a.optional) return kNull - int(i);
    if (reinterpret_cast<uintptr_t>(given[i]) % a.alignment != 0) return kMisaligned - int(i);
  }
  return 0;
}

inline int checked(const Shape& shape, int& major) {
  int device = 0, minor = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  if (const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) return error;
  if (const cudaError_t error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)) return error;
  const int has = 10 * major + minor, wants = 10 * shape.major + shape.minor;
  return has == wants || (has > wants && !shape.exactly) ? 0 : kOtherDevice;
}

// A function of the driver, which is loaded already: the program links the runtime alone
inline void* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result);
#endif
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? function : nullptr;
}

inline int encode(const List<Map>& maps, const void* const* given, unsigned char* parameter) {
  if (maps.count == 0) return 0;
  static const auto tiled =
      reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled"));
  static const auto im2col =
      reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(driver_function("cuTensorMapEncodeIm2col"));
  if (tiled == nullptr || im2col == nullptr) return kNoMaps;
  for (unsigned i = 0; i < maps.count; ++i) {
    const Map& m = maps.first[i];
    void* const base = const_cast<char*>(static_cast<const char*>(given[m.argument]) + m.ahead);
    CUtensorMap map;
    const CUresult result = m.im2col ? im2col(&map, m.type, m.rank, base, m.extents, m.strides, m.lower, m.upper,
                                              m.channels, m.pixels, m.steps, CU_TENSOR_MAP_INTERLEAVE_NONE, m.swizzle,
                                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
                                     : tiled(&map, m.type, m.rank, base, m.extents, m.strides, m.box, m.steps,
                                             CU_TENSOR_MAP_INTERLEAVE_NONE, m.swizzle,
                                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) return kMap - int(m.argument);
    memcpy(parameter + m.at, &map, sizeof map);
  }
  return 0;
}

inline void fill(const List<Word>& words, const List<Place>& places, const void* const* given,
                 unsigned char* parameter) {
  for (unsigned i = 0; i < words.count; ++i) memcpy(parameter + words.first[i].at, &words.first[i].bits, 8);
  for (unsigned i = 0; i < places.count; ++i) {
    const Place& p = places.first[i];
    if (given[p.argument] == nullptr) continue;  // an operand that has a default
    const unsigned long long address = reinterpret_cast<uintptr_t>(given[p.argument]) + p.ahead;
    memcpy(parameter + p.at, &address, 8);
  }
}

// The kernel waits, before it touches memory, until the launches ahead in its stream have ended: its CTAs may start
// earlier
inline int enqueue(const Shape& shape, const void* kernel, int major, unsigned char* parameter, cudaStream_t stream) {
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shape.shared_bytes)))
    return error;
  if (shape.cluster > 8)
    if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1))
      return error;
  cudaLaunchAttribute attributes[3];
  unsigned count = 0;
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = shape.cluster;
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (shape.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count].val.cooperative = 1;
    ++count;
  }
  if (major >= 9) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t config{};
  config.gridDim.x = shape.ctas, config.gridDim.y = config.gridDim.z = 1;
  config.blockDim.x = shape.threads, config.blockDim.y = config.blockDim.z = 1;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes, config.numAttrs = count;
  void* parameters[] = {parameter};
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace unisono::emitted
