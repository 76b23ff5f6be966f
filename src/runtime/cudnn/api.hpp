#pragma once
/// The part of cuDNN's backend interface that is used, declared here, so that building needs no cuDNN: handles are
/// opaque, and enumerators have the numbers of cudnn_graph.h of cuDNN 9, which do not change between its versions
/// (tests/unit/cudnn/api_test.cpp compares them wherever that header is found).

#include <cstddef>
#include <cstdint>

namespace unisono::cudnn {

struct Context;  // cudnnContext, opaque
using Handle = Context*;
using BackendDescriptor = void*;
using CudaStream = void*;

constexpr int success = 0;  ///< cudnnStatus_t; all others are failures

/// cudnnDataType_t
enum class DataType : int { f32 = 0, f16 = 2, bf16 = 9 };

/// cudnnBackendDescriptorType_t
enum class DescriptorType : int {
  pointwise = 0,
  engine = 2,
  engine_config = 3,
  engine_heuristic = 4,
  execution_plan = 5,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
  reduction = 21,
  operation_reduction = 22,
  device_properties = 38,
};

/// cudnnBackendAttributeType_t
enum class AttributeType : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  float32 = 4,
  void_pointer = 6,
  heuristic_mode = 8,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
  character = 24,
};

/// cudnnBackendAttributeName_t
enum class Attribute : int {
  pointwise_mode = 0,
  pointwise_math_precision = 1,
  heuristic_mode = 200,
  heuristic_operation_graph = 201,
  heuristic_results = 202,
  heuristic_device_properties = 204,
  config_engine = 300,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace_size = 402,
  plan_device_properties = 407,
  operation_pointwise_descriptor = 750,
  operation_pointwise_x = 751,
  operation_pointwise_b = 752,
  operation_pointwise_y = 753,
  graph_handle = 800,
  graph_operations = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  pack_unique_ids = 1000,
  pack_data_pointers = 1001,
  pack_workspace = 1003,
  engine_global_index = 1301,
  matmul_compute_type = 1500,
  operation_matmul_a = 1520,
  operation_matmul_b = 1521,
  operation_matmul_c = 1522,
  operation_matmul_descriptor = 1523,
  reduction_operator = 1600,
  reduction_compute_type = 1601,
  operation_reduction_x = 1610,
  operation_reduction_y = 1611,
  operation_reduction_descriptor = 1612,
  device_properties_json = 2702,
};

/// cudnnPointwiseMode_t
enum class PointwiseMode : int { add = 0, mul = 1, div = 6, sub = 9, exp = 13, log = 15 };
/// cudnnReduceTensorOp_t
enum class ReductionOperator : int { add = 0, max = 3 };
/// cudnnBackendHeurMode_t
enum class HeuristicMode : int { fallback = 2, a = 3 };

/// The functions, by the names that they have after "cudnn". Each that returns an int returns a cudnnStatus_t.
struct Functions {
  std::size_t (*GetVersion)();
  const char* (*GetErrorString)(int status);
  void (*GetLastErrorString)(char* text, std::size_t bytes);
  int (*Create)(Handle* handle);
  int (*Destroy)(Handle handle);
  int (*SetStream)(Handle handle, CudaStream stream);
  int (*BackendCreateDescriptor)(DescriptorType type, BackendDescriptor* descriptor);
  int (*BackendDestroyDescriptor)(BackendDescriptor descriptor);
  int (*BackendSetAttribute)(BackendDescriptor descriptor, Attribute name, AttributeType type, std::int64_t count,
                             const void* values);
  int (*BackendGetAttribute)(BackendDescriptor descriptor, Attribute name, AttributeType type, std::int64_t asked,
                             std::int64_t* count, void* values);
  int (*BackendFinalize)(BackendDescriptor descriptor);
  int (*BackendExecute)(Handle handle, BackendDescriptor plan, BackendDescriptor variant_pack);
};

}  // namespace unisono::cudnn
