#pragma once
/// One of ONNX's backend tests: a model, and tensors that go in and come out.

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx.pb.h"
#include "unisono/dtype.hpp"

namespace unisono::test {

struct CaseTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  ///< dense, row-major
};

struct NodeCase {
  std::string name;
  onnx::ModelProto model;
  std::int64_t opset = 0;
  std::vector<std::string> operators;        ///< of its nodes
  std::vector<std::filesystem::path> data;   ///< folders with inputs and outputs
  std::set<std::string> parameters;          ///< inputs that must be known when the model is loaded, such as axes
  std::map<std::string, int> types;          ///< of inputs and outputs, as TensorProto numbers them
  std::vector<std::string> inputs, outputs;  ///< names in the order of the files
};

/// Reads model.onnx and lists what is beside it.
NodeCase read_case(const std::filesystem::path& folder);

/// input_<i>.pb or output_<i>.pb of the type that the model declares. Throws UserError for a type that networks do not
/// have.
CaseTensor read_tensor(const std::filesystem::path& file, int type);
/// The same of a tensor in memory; `where` names it in errors.
CaseTensor as_case_tensor(onnx::TensorProto proto, int type, const std::string& where);

}  // namespace unisono::test
