#pragma once
/// The part of the CUDA driver's C interface that is used, declared here, so that building needs no CUDA toolkit: the
/// types, structures and numbers of cuda.h of CUDA 12 and 13, under its names. They do not change between versions;
/// tests/unit/cuda/driver_api_test.cpp compares them with that header wherever it is found. No source can include both.

#include <cstddef>
#include <cstdint>

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUuserObject = struct CUuserObject_st*;
using CUhostFn = void (*)(void* data);

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
};
enum CUmemorytype : int { CU_MEMORYTYPE_DEVICE = 2 };
enum CUmemAttach_flags : unsigned { CU_MEM_ATTACH_GLOBAL = 1 };

enum CUstream_flags : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
inline const CUstream CU_STREAM_LEGACY = reinterpret_cast<CUstream>(1);
enum CUevent_flags : unsigned { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};
enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};

enum CUgraphNodeType : int { CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_GRAPH = 4 };
enum CUgraphDependencyType : int { CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1 };
inline constexpr unsigned char CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1;
enum CUuserObject_flags : unsigned { CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1 };
enum CUuserObjectRetain_flags : unsigned { CU_GRAPH_USER_OBJECT_MOVE = 1 };

/// CUDA 12.3 and later.
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

enum CUtensorMapDataType : int {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};
enum CUtensorMapInterleave : int { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle : int {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
};
enum CUtensorMapL2promotion : int { CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
enum CUtensorMapFloatOOBfill : int { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

/// 128 bytes. The hardware reads it at multiples of 64; cuda.h of CUDA 13 aligns it to 128.
struct alignas(64) CUtensorMap {
  cuuint64_t opaque[16];
};

enum CUlaunchAttributeID : int {
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};
using CUkernelNodeAttrID = CUlaunchAttributeID;

/// The members that are used, of 64 bytes
union CUlaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned x, y, z;
  } clusterDim;
  int programmaticStreamSerializationAllowed;
  void* pointer;  ///< no member of cuda.h's: for the alignment of those that are left out
};
using CUkernelNodeAttrValue = CUlaunchAttributeValue;

struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  char pad[4];
  CUlaunchAttributeValue value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

/// Version 2, of CUDA 12
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
  CUkernel kern;
  CUcontext ctx;
};

/// The functions that every driver of CUDA 12.0 or later has: symbols of libcuda.so.1 and their parameters. All return
/// a CUresult.
#define UNISONO_DRIVER_FUNCTIONS(F)                                                                                 \
  F(cuDriverGetVersion, (int* version))                                                                             \
  F(cuGetErrorName, (CUresult error, const char** name))                                                            \
  F(cuGetErrorString, (CUresult error, const char** text))                                                          \
  F(cuInit, (unsigned flags))                                                                                       \
  F(cuDeviceGetCount, (int* count))                                                                                 \
  F(cuDeviceGet, (CUdevice * device, int ordinal))                                                                  \
  F(cuDeviceGetName, (char* name, int length, CUdevice device))                                                     \
  F(cuDeviceGetAttribute, (int* value, CUdevice_attribute which, CUdevice device))                                  \
  F(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                               \
  F(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned* flags, int* active))                                    \
  F(cuCtxGetId, (CUcontext context, unsigned long long* id))                                                        \
  F(cuCtxGetCurrent, (CUcontext * context))                                                                         \
  F(cuCtxPushCurrent_v2, (CUcontext context))                                                                       \
  F(cuCtxPopCurrent_v2, (CUcontext * context))                                                                      \
  F(cuCtxSynchronize, ())                                                                                           \
  F(cuModuleLoadData, (CUmodule * module, const void* image))                                                       \
  F(cuModuleUnload, (CUmodule module))                                                                              \
  F(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))                                \
  F(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute which, int value))                               \
  F(cuFuncGetAttribute, (int* value, CUfunction_attribute which, CUfunction function))                              \
  F(cuOccupancyMaxActiveClusters, (int* clusters, CUfunction function, const CUlaunchConfig* config))               \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                                    \
    (int* blocks, CUfunction function, int threads, std::size_t shared_bytes))                                      \
  F(cuTensorMapEncodeTiled,                                                                                         \
    (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* extents,        \
     const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,   \
     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill))                   \
  F(cuTensorMapEncodeIm2col,                                                                                        \
    (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* extents,        \
     const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t pixels,         \
     const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,                         \
     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill))                                               \
  F(cuTensorMapReplaceAddress, (CUtensorMap * map, void* address))                                                  \
  F(cuLaunchKernel,                                                                                                 \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,    \
     unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra))                    \
  F(cuLaunchKernelEx, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))         \
  F(cuMemAlloc_v2, (CUdeviceptr * address, std::size_t bytes))                                                      \
  F(cuMemFree_v2, (CUdeviceptr address))                                                                            \
  F(cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags))                                             \
  F(cuMemFreeHost, (void* memory))                                                                                  \
  F(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                                                     \
  F(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes))                                                \
  F(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream))                          \
  F(cuMemsetD8Async, (CUdeviceptr address, unsigned char value, std::size_t bytes, CUstream stream))                \
  F(cuPointerGetAttribute, (void* value, CUpointer_attribute which, CUdeviceptr address))                           \
  F(cuStreamCreate, (CUstream * stream, unsigned flags))                                                            \
  F(cuStreamDestroy_v2, (CUstream stream))                                                                          \
  F(cuStreamQuery, (CUstream stream))                                                                               \
  F(cuStreamSynchronize, (CUstream stream))                                                                         \
  F(cuStreamGetId, (CUstream stream, unsigned long long* id))                                                       \
  F(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                         \
  F(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                           \
  F(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                         \
  F(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))                                                \
  F(cuEventCreate, (CUevent * event, unsigned flags))                                                               \
  F(cuEventRecord, (CUevent event, CUstream stream))                                                                \
  F(cuEventSynchronize, (CUevent event))                                                                            \
  F(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                            \
  /* the first version, which every driver has: cuda.h of CUDA 13 names another */                                  \
  F(cuEventElapsedTime, (float* milliseconds, CUevent from, CUevent to))                                            \
  F(cuEventDestroy_v2, (CUevent event))                                                                             \
  F(cuGraphCreate, (CUgraph * graph, unsigned flags))                                                               \
  F(cuGraphDestroy, (CUgraph graph))                                                                                \
  F(cuGraphInstantiateWithFlags, (CUgraphExec * instance, CUgraph graph, unsigned long long flags))                 \
  F(cuGraphLaunch, (CUgraphExec instance, CUstream stream))                                                         \
  F(cuGraphExecDestroy, (CUgraphExec instance))                                                                     \
  F(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, std::size_t * count))                                     \
  F(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type))                                                 \
  F(cuGraphAddKernelNode_v2, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, std::size_t count,       \
                              const CUDA_KERNEL_NODE_PARAMS* parameters))                                           \
  F(cuGraphAddChildGraphNode,                                                                                       \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, std::size_t count, CUgraph child))                \
  F(cuGraphKernelNodeSetAttribute, (CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value))   \
  F(cuGraphKernelNodeGetAttribute, (CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue * value))        \
  F(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS * parameters))                        \
  F(cuUserObjectCreate, (CUuserObject * object, void* data, CUhostFn destroy, unsigned references, unsigned flags)) \
  F(cuUserObjectRelease, (CUuserObject object, unsigned count))                                                     \
  F(cuGraphRetainUserObject, (CUgraph graph, CUuserObject object, unsigned count, unsigned flags))                  \
  /* of CUDA 12; cuda.h of CUDA 13 names the next version */                                                        \
  F(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus * status, cuuint64_t * id, CUgraph * graph,  \
                                const CUgraphNode** after, std::size_t* count))

/// Those that a driver may lack
#define UNISONO_NEWER_DRIVER_FUNCTIONS(F)                                                                            \
  /* of CUDA 12.4 */                                                                                                 \
  F(cuFuncGetParamInfo, (CUfunction function, std::size_t index, std::size_t * offset, std::size_t * bytes))         \
  /* of CUDA 12.3 */                                                                                                 \
  F(cuGraphAddDependencies_v2,                                                                                       \
    (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data, std::size_t count)) \
  F(cuGraphGetEdges_v2,                                                                                              \
    (CUgraph graph, CUgraphNode * from, CUgraphNode * to, CUgraphEdgeData * data, std::size_t * count))
