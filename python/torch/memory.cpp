#include "memory.hpp"

#include <array>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>

namespace unisono::python {
namespace {

/// A function of libtorch_cuda, which is in the process wherever there is a CUDA tensor; it is not linked.
template <class Function>
Function of_cuda(const char* name) {
  void* const found = loaded_symbol("libtorch_cuda.so", name);
  if (found == nullptr) throw std::runtime_error(std::string("unisono: this PyTorch has no ") + name);
  return reinterpret_cast<Function>(found);
}

}  // namespace

void* address_of_channel(const Tensor& image, std::int64_t first, DType dtype) {
  std::int64_t* strides = nullptr;
  check(aoti_torch_get_strides(image.get(), &strides), "asking for a tensor's strides");
  return static_cast<std::byte*>(image.address()) + first * strides[1] * static_cast<std::int64_t>(size_of(dtype));
}

std::int32_t dtype_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return aoti_torch_dtype_float64();
    case DType::f32: return aoti_torch_dtype_float32();
    case DType::f16: return aoti_torch_dtype_float16();
    case DType::bf16: return aoti_torch_dtype_bfloat16();
    case DType::i32: return aoti_torch_dtype_int32();
    case DType::i64: return aoti_torch_dtype_int64();
    case DType::i8: return aoti_torch_dtype_int8();
    case DType::u8: return aoti_torch_dtype_uint8();
    case DType::boolean: return aoti_torch_dtype_bool();
    default: throw std::runtime_error("unisono: a result of a dtype that PyTorch does not have");
  }
}

Tensor empty(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides, std::int32_t dtype,
             const Place& place) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_empty_strided(static_cast<std::int64_t>(shape.size()), shape.data(), strides.data(), dtype,
                                 place.device, place.index, &made),
        "allocating a tensor");
  return Tensor(made);
}

Stream current_stream(int index) {
  static const auto function = of_cuda<AOTITorchError (*)(std::int32_t, void**)>("aoti_torch_get_current_cuda_stream");
  void* stream = nullptr;
  check(function(index, &stream), "asking for the current stream");
  return stream;
}

Tensor workspace(std::size_t bytes, const Place& place, Stream stream) {
  return std::async(
             std::launch::async,
             [&] {
               static const auto set =
                   of_cuda<AOTITorchError (*)(void*, std::int32_t, void**)>("aoti_torch_create_cuda_stream_guard");
               static const auto reset = of_cuda<AOTITorchError (*)(void*)>("aoti_torch_delete_cuda_stream_guard");
               void* guard = nullptr;
               check(set(stream, place.index, &guard), "setting a stream");
               const std::unique_ptr<void, AOTITorchError (*)(void*)> guarded(guard, reset);
               return empty({static_cast<std::int64_t>(bytes)}, {1}, aoti_torch_dtype_uint8(), place);
             })
      .get();
}

Tensor ordered(const Tensor& tensor, Order order) {
  const std::int32_t format = order == Order::contiguous ? aoti_torch_memory_format_contiguous_format()
                                                         : aoti_torch_memory_format_channels_last();
  std::array<StableIValue, 2> stack{tensor.shared(), from(format)};
  check(torch_call_dispatcher("aten::contiguous", "", stack.data(), stable_version), "copying a tensor");
  Tensor made(to<AtenTensorHandle>(stack[0]));
  if (reinterpret_cast<std::uintptr_t>(made.address()) % alignment == 0) return made;
  stack = {made.shared(), from(new StableIValue(from(format)))};
  check(torch_call_dispatcher("aten::clone", "", stack.data(), stable_version), "copying a tensor");
  return Tensor(to<AtenTensorHandle>(stack[0]));
}

}  // namespace unisono::python
