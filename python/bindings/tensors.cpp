#include "tensors.hpp"

namespace unisono::python {
namespace {

using namespace nb::literals;

std::optional<DType> dtype_of(const nb::dlpack::dtype& t) {
  using Code = nb::dlpack::dtype_code;
  if (t.lanes != 1) return {};
  const auto sized = [&](std::uint8_t bits, DType dtype) -> std::optional<DType> {
    return t.bits == bits ? std::optional(dtype) : std::nullopt;
  };
  const auto first = [](std::initializer_list<std::optional<DType>> all) {
    for (const std::optional<DType>& one : all)
      if (one) return one;
    return std::optional<DType>();
  };
  switch (static_cast<Code>(t.code)) {
    case Code::Float: return first({sized(32, DType::f32), sized(16, DType::f16), sized(64, DType::f64)});
    case Code::Bfloat: return sized(16, DType::bf16);
    case Code::Bool: return sized(8, DType::boolean);
    case Code::Int:
      return first({sized(32, DType::i32), sized(64, DType::i64), sized(8, DType::i8), sized(16, DType::i16)});
    case Code::UInt:
      return first({sized(8, DType::u8), sized(32, DType::u32), sized(64, DType::u64), sized(16, DType::u16)});
    default: return {};
  }
}

std::string place_text(Device device, int index) {
  return device == Device::cpu ? "the host's memory" : "the memory of GPU " + std::to_string(index);
}

std::string name_of_type(nb::handle object) { return nb::cast<std::string>(nb::str(nb::type_name(object.type()))); }

}  // namespace

void BoundTensors::check_place(const std::string& name, Device device, int index) const {
  if (place_.any && device == Device::cpu) return;
  if (device == place_.device && (device == Device::cpu || index == place_.device_index)) return;
  throw UserError("argument '" + name + "' is in " + place_text(device, index) + "; expected " +
                  place_text(place_.device, place_.device_index) + ", where this is run");
}

TensorView BoundTensors::view(const std::string& name, nb::handle object, bool is_written) {
  Tensor* tensor = nullptr;
  if (nb::try_cast(object, tensor, false) && tensor != nullptr) {
    if (is_written && !tensor->writable) throw UserError("output '" + name + "' is a read-only unisono.Tensor");
    check_place(name, tensor->device, tensor->device_index);
    objects_.push_back(nb::borrow(object));
    return {reinterpret_cast<void*>(tensor->address), tensor->dtype, tensor->shape, tensor->strides};
  }
  if (nb::ndarray<nb::ro> array; nb::try_cast(object, array, false)) {
    if (nb::ndarray<> writable; is_written && !nb::try_cast(object, writable, false))
      throw UserError("output '" + name + "' cannot be written: it is a read-only " + name_of_type(object));
    const std::optional<DType> dtype = dtype_of(array.dtype());
    if (!dtype)
      throw UserError("argument '" + name + "' has elements of a type that Unisono does not have; expected float16, " +
                      "bfloat16, float32, float64, bool or integers of 8 to 64 bits");
    const bool on_host =
        array.device_type() != nb::device::cuda::value && array.device_type() != nb::device::cuda_managed::value;
    check_place(name, on_host ? Device::cpu : Device::cuda, array.device_id());
    TensorView result{const_cast<void*>(array.data()), *dtype};
    for (std::size_t i = 0; i < array.ndim(); ++i) {
      result.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
      result.strides.push_back(array.stride(i));
    }
    arrays_.push_back(std::move(array));
    return result;
  }
  throw UserError("argument '" + name + "' is " + (object.is_none() ? "missing" : "a " + name_of_type(object)) +
                  "; expected a tensor (NumPy, PyTorch or any other with __dlpack__), or a unisono.Tensor");
}

ConstTensorView BoundTensors::read(const std::string& name, nb::handle object) { return view(name, object, false); }
TensorView BoundTensors::write(const std::string& name, nb::handle object) { return view(name, object, true); }

std::map<std::string, ConstTensorView> read_all(BoundTensors& bound, const nb::dict& tensors) {
  std::map<std::string, ConstTensorView> views;
  for (const auto& [key, object] : tensors) {
    const auto name = nb::cast<std::string>(key);
    views[name] = bound.read(name, object);
  }
  return views;
}

std::map<std::string, TensorView> write_all(BoundTensors& bound, const nb::dict& tensors) {
  std::map<std::string, TensorView> views;
  for (const auto& [key, object] : tensors) {
    const auto name = nb::cast<std::string>(key);
    views[name] = bound.write(name, object);
  }
  return views;
}

WorkspaceMemory workspace_of(BoundTensors& bound, nb::handle tensor, std::uintptr_t stream, bool is_clear) {
  if (tensor.is_none()) return {};
  const TensorView view = bound.write("workspace", tensor);
  return {view.data, static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype),
          reinterpret_cast<Stream>(stream), is_clear};
}

void bind_tensors(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor",
                     "A view of memory that another object owns: address, dtype, shape, and strides in elements.\n\n"
                     "For tensors that DLPack cannot pass, such as bfloat16 arrays of NumPy, and for raw addresses.")
      .def(
          "__init__",
          [](Tensor* self, std::uintptr_t address, DType dtype, std::vector<std::int64_t> shape,
             std::optional<std::vector<std::int64_t>> strides, Device device, int device_index, bool writable,
             nb::object owner) {
            if (strides && strides->size() != shape.size())
              throw UserError("unisono.Tensor: " + std::to_string(strides->size()) + " strides for a shape of " +
                              std::to_string(shape.size()) + " extents");
            new (self) Tensor{
                address, dtype,        std::move(shape), strides ? std::move(*strides) : std::vector<std::int64_t>(),
                device,  device_index, writable,         std::move(owner)};
          },
          "address"_a, "dtype"_a, "shape"_a, "strides"_a = nb::none(), nb::kw_only(), "device"_a = Device::cpu,
          "device_index"_a = 0, "writable"_a = true, "owner"_a = nb::none(),
          "The memory must stay valid as long as the object is used; `owner` is kept alive as long as it lives.")
      .def_ro("address", &Tensor::address, "Where the first element lies.")
      .def_ro("dtype", &Tensor::dtype)
      .def_ro("shape", &Tensor::shape)
      .def_ro("strides", &Tensor::strides, "In elements; empty: dense and row-major.")
      .def_ro("device", &Tensor::device)
      .def_ro("device_index", &Tensor::device_index);
}

}  // namespace unisono::python
