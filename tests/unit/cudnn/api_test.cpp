// The numbers of api.hpp against cuDNN's own header, where it was found.

#include "runtime/cudnn/api.hpp"

#include <gtest/gtest.h>

#ifdef UNISONO_CUDNN_HEADER
#include <cudnn_graph.h>
#endif

namespace unisono::cudnn {
namespace {

TEST(CudnnApi, HasTheHeadersNumbers) {
#ifdef UNISONO_CUDNN_HEADER
#define UNISONO_SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
  UNISONO_SAME(DataType::f16, CUDNN_DATA_HALF);
  UNISONO_SAME(DataType::bf16, CUDNN_DATA_BFLOAT16);
  UNISONO_SAME(DataType::f32, CUDNN_DATA_FLOAT);
  UNISONO_SAME(DescriptorType::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::engine_heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  UNISONO_SAME(DescriptorType::device_properties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  UNISONO_SAME(AttributeType::handle, CUDNN_TYPE_HANDLE);
  UNISONO_SAME(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE);
  UNISONO_SAME(AttributeType::boolean, CUDNN_TYPE_BOOLEAN);
  UNISONO_SAME(AttributeType::int64, CUDNN_TYPE_INT64);
  UNISONO_SAME(AttributeType::float32, CUDNN_TYPE_FLOAT);
  UNISONO_SAME(AttributeType::void_pointer, CUDNN_TYPE_VOID_PTR);
  UNISONO_SAME(AttributeType::heuristic_mode, CUDNN_TYPE_HEUR_MODE);
  UNISONO_SAME(AttributeType::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
  UNISONO_SAME(AttributeType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  UNISONO_SAME(AttributeType::reduction_operator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  UNISONO_SAME(AttributeType::character, CUDNN_TYPE_CHAR);
  UNISONO_SAME(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
  UNISONO_SAME(Attribute::pointwise_math_precision, CUDNN_ATTR_POINTWISE_MATH_PREC);
  UNISONO_SAME(Attribute::heuristic_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
  UNISONO_SAME(Attribute::heuristic_operation_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  UNISONO_SAME(Attribute::heuristic_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  UNISONO_SAME(Attribute::heuristic_device_properties, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  UNISONO_SAME(Attribute::config_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
  UNISONO_SAME(Attribute::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  UNISONO_SAME(Attribute::plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  UNISONO_SAME(Attribute::plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  UNISONO_SAME(Attribute::plan_device_properties, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  UNISONO_SAME(Attribute::operation_pointwise_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  UNISONO_SAME(Attribute::operation_pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  UNISONO_SAME(Attribute::operation_pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  UNISONO_SAME(Attribute::operation_pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  UNISONO_SAME(Attribute::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  UNISONO_SAME(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  UNISONO_SAME(Attribute::tensor_byte_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  UNISONO_SAME(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
  UNISONO_SAME(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
  UNISONO_SAME(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
  UNISONO_SAME(Attribute::tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  UNISONO_SAME(Attribute::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  UNISONO_SAME(Attribute::tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  UNISONO_SAME(Attribute::pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  UNISONO_SAME(Attribute::pack_data_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  UNISONO_SAME(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  UNISONO_SAME(Attribute::engine_global_index, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  UNISONO_SAME(Attribute::matmul_compute_type, CUDNN_ATTR_MATMUL_COMP_TYPE);
  UNISONO_SAME(Attribute::operation_matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  UNISONO_SAME(Attribute::operation_matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  UNISONO_SAME(Attribute::operation_matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  UNISONO_SAME(Attribute::operation_matmul_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  UNISONO_SAME(Attribute::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
  UNISONO_SAME(Attribute::reduction_compute_type, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  UNISONO_SAME(Attribute::operation_reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  UNISONO_SAME(Attribute::operation_reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  UNISONO_SAME(Attribute::operation_reduction_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  UNISONO_SAME(Attribute::device_properties_json, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  UNISONO_SAME(PointwiseMode::add, CUDNN_POINTWISE_ADD);
  UNISONO_SAME(PointwiseMode::mul, CUDNN_POINTWISE_MUL);
  UNISONO_SAME(PointwiseMode::div, CUDNN_POINTWISE_DIV);
  UNISONO_SAME(PointwiseMode::sub, CUDNN_POINTWISE_SUB);
  UNISONO_SAME(PointwiseMode::exp, CUDNN_POINTWISE_EXP);
  UNISONO_SAME(PointwiseMode::log, CUDNN_POINTWISE_LOG);
  UNISONO_SAME(ReductionOperator::add, CUDNN_REDUCE_TENSOR_ADD);
  UNISONO_SAME(ReductionOperator::max, CUDNN_REDUCE_TENSOR_MAX);
  UNISONO_SAME(HeuristicMode::fallback, CUDNN_HEUR_MODE_FALLBACK);
  UNISONO_SAME(HeuristicMode::a, CUDNN_HEUR_MODE_A);
#else
  GTEST_SKIP() << "cudnn_graph.h was not found when this build was configured";
#endif
}

}  // namespace
}  // namespace unisono::cudnn
