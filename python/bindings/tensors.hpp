#pragma once
/// Tensors of Python: whatever speaks DLPack or the buffer protocol, and addresses with a dtype and a shape.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// unisono.Tensor: memory that another object owns. Strides count elements; none: dense and row-major.
struct Tensor {
  std::uintptr_t address = 0;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape, strides;
  Device device = Device::cpu;
  int device_index = 0;
  bool writable = true;
  nb::object owner;  // kept alive as long as this object
};

/// Where an executable expects its tensors.
struct Place {
  Device device = Device::cpu;
  int device_index = 0;
  bool any = false;  // a network on a GPU takes tensors of the host as well
};

/// The arguments of one call, and what keeps their memory alive until it is over. Filled while the GIL is held.
class BoundTensors {
 public:
  explicit BoundTensors(Place place) : place_(place) {}

  /// Throws UserError that names the argument unless `object` is a tensor of strides that are not negative, in the
  /// place's memory and of a dtype that the library has.
  ConstTensorView read(const std::string& name, nb::handle object);
  /// The same of memory that is written: read-only tensors are a UserError.
  TensorView write(const std::string& name, nb::handle object);

 private:
  TensorView view(const std::string& name, nb::handle object, bool is_written);
  void check_place(const std::string& name, Device device, int index) const;

  Place place_;
  std::vector<nb::ndarray<nb::ro>> arrays_;
  std::vector<nb::object> objects_;
};

/// Tensors by name, and a call's options, as type checkers see them.
using Named = nb::typed<nb::dict, nb::str, nb::object>;

/// Tensors by name.
std::map<std::string, ConstTensorView> read_all(BoundTensors& bound, const nb::dict& tensors);
std::map<std::string, TensorView> write_all(BoundTensors& bound, const nb::dict& tensors);

/// A workspace of the caller: None, or a tensor of bytes in a GPU's memory.
WorkspaceMemory workspace_of(BoundTensors& bound, nb::handle tensor, std::uintptr_t stream, bool is_clear);

/// As in the text form, brackets and commas or not: "mn", "[b,n]", "n", "".
Axes axes_of(const std::string& text);
std::string text_of(const Axes& axes);

void bind_tensors(nb::module_& module);
void bind_graphs(nb::module_& module);
void bind_builder(nb::module_& module);
void bind_executables(nb::module_& module);
void bind_networks(nb::module_& module);
void bind_compiler(nb::module_& module);
void bind_explore(nb::module_& module);
void bind_memory(nb::module_& module);

}  // namespace unisono::python
