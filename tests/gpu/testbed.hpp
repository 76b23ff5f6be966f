#pragma once
/// A case with its data on the host and on the GPU, run and compared with the float64 reference.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/case.hpp"
#include "gpu/device.hpp"
#include "gpu/error_model.hpp"
#include "plan/epilogue.hpp"
#include "reference/reference.hpp"

namespace unisono::gpu {

/// One tensor, twice.
struct Tensor {
  std::vector<std::byte> host;
  std::unique_ptr<Buffer> device;
  DType dtype{};
  std::vector<std::int64_t> shape, strides = {};  ///< no strides: dense
  std::unique_ptr<Buffer> dense = {};             ///< with strides: an input without its gaps, for the reference

  ConstTensorView on_host() const { return {host.data(), dtype, shape, strides}; }
  TensorView on_device() const { return {device->data(), dtype, shape, strides}; }
  CUdeviceptr without_gaps() const { return (dense ? dense : device)->address(); }
};

/// What a run left, without anything that needs the GPU: can be judged in another thread.
struct Outcome {
  Case c;
  Graph graph;  ///< judged_graph_of(), with whole stores only
  families::sm90_conv::ConvConfig config{};
  families::Plan::Numerics numerics{};
  std::map<std::string, Tensor> tensors;  ///< a, b, b1, operands, outputs, by name; the device's part is gone
  reference::Values acc;                  ///< float64, with bounds
  reference::Values acc1 = {};            ///< of a dual product
  std::string main = {};                  ///< the store of which others are made (Case::resampled)
  Arguments arguments() const;            ///< on the host
};

/// What was compared; elements without a claim are those of which the reference gives no bound.
struct Tally {
  std::int64_t elements = 0, without_claim = 0;
};

/// Empty if every element of every output agrees with the reference; else what does not. Without a tally an element
/// without a claim is a fault.
std::string judge(const Outcome& outcome, Tally* tally = nullptr);

class Testbed {
 public:
  /// Makes the data; compiles nothing.
  explicit Testbed(const Case& c);

  const Case& test_case() const { return c_; }
  const Graph& graph() const { return graph_; }
  Arguments arguments() const;  ///< on the GPU
  Tensor& tensor(const std::string& name) { return tensors_.at(name); }

  /// As unisono::compile makes it.
  Executable compile() const;

  void poison(CUstream stream);
  /// Bytes of all outputs, in the order of their names.
  std::vector<std::vector<std::byte>> outputs() const;
  std::vector<std::string> output_names() const;
  /// "y": guards around it were written over; empty: all hold.
  std::string broken_guard() const;

  /// Runs twice on poisoned outputs. Appends to `problems` if bits differ, or something was written beside a tensor.
  Outcome run(const Executable& executable, std::string& problems);

  /// run() and judge(), all at once; empty if all is well.
  std::string check(const Executable& executable);
  std::string check() { return check(compile()); }

 private:
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, double mean, double deviation,
           const std::function<double(std::int64_t)>& trend = {});
  void add_output(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape);
  std::string main_store() const;  ///< of which others are made
  void add_gaps(const std::string& name, std::size_t axis, std::int64_t gap, bool input);
  void lay_out(const std::string& name, bool input);
  void add_witness();
  std::string differences(const std::vector<std::vector<std::byte>>& first,
                          const std::vector<std::vector<std::byte>>& second) const;
  std::string take_witness(const std::vector<std::byte>& cells, Outcome& outcome) const;
  bool is_dual() const { return product_count(c_.contraction()) == 2; }
  reference::Values accumulator(const std::string& filter) const;

  Case c_;
  Graph graph_;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::string> operands_, outputs_;
  std::unique_ptr<Buffer> witness_;  ///< of each element or row: how often it was seen, and with what value
};

/// How far the case's kernel may be from float64.
reference::ErrorModel error_model(const Case& c, const families::Plan::Numerics& numerics);

}  // namespace unisono::gpu
