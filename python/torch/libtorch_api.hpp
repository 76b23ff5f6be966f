#pragma once
/// The part of libtorch's stable C interface that is used, declared here, so that building needs no PyTorch: functions
/// of PyTorch 2.11 and later, which do not change (torch/csrc/stable/c/shim.h and
/// torch/csrc/inductor/aoti_torch/c/shim.h; libtorch_api_check.cpp compares them wherever these are found). Nothing of
/// libtorch is linked: load_libtorch() finds the functions in the PyTorch that the process has loaded.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

// Libtorch's, opaque
struct AtenTensorOpaque;
struct StableListOpaque;
struct StringOpaque;
struct TorchLibraryOpaque;

namespace unisono::python {

using AOTITorchError = std::int32_t;  ///< 0: success
using AtenTensorHandle = AtenTensorOpaque*;
using StableListHandle = StableListOpaque*;
using StringHandle = StringOpaque*;
using TorchLibraryHandle = TorchLibraryOpaque*;
/// An argument or result of an operator: a number's bytes, or a handle or pointer. An optional is a pointer to a value
/// on the heap, which whoever receives it deletes, or null.
using StableIValue = std::uint64_t;
using StableKernel = void (*)(StableIValue* stack, std::uint64_t inputs, std::uint64_t outputs);

/// The version whose conventions calls follow: 2.11.0.
inline constexpr std::uint64_t stable_version = std::uint64_t{2} << 56 | std::uint64_t{11} << 48;

/// Result, name, parameters.
#define UNISONO_LIBTORCH_FUNCTIONS(F)                                                                    \
  F(AOTITorchError, aoti_torch_delete_tensor_object, (AtenTensorHandle))                                 \
  F(AOTITorchError, aoti_torch_new_tensor_handle, (AtenTensorHandle, AtenTensorHandle * copy))           \
  F(AOTITorchError, aoti_torch_get_data_ptr, (AtenTensorHandle, void** data))                            \
  F(AOTITorchError, aoti_torch_get_dim, (AtenTensorHandle, std::int64_t * rank))                         \
  F(AOTITorchError, aoti_torch_get_sizes, (AtenTensorHandle, std::int64_t * *sizes))                     \
  F(AOTITorchError, aoti_torch_get_strides, (AtenTensorHandle, std::int64_t * *strides))                 \
  F(AOTITorchError, aoti_torch_get_dtype, (AtenTensorHandle, std::int32_t * dtype))                      \
  F(AOTITorchError, aoti_torch_get_device_type, (AtenTensorHandle, std::int32_t * device))               \
  F(AOTITorchError, aoti_torch_get_device_index, (AtenTensorHandle, std::int32_t * index))               \
  F(AOTITorchError, aoti_torch_empty_strided,                                                            \
    (std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides, std::int32_t dtype,      \
     std::int32_t device, std::int32_t index, AtenTensorHandle* made))                                   \
  F(std::int32_t, aoti_torch_device_type_cuda, ())                                                       \
  F(std::int32_t, aoti_torch_dtype_float64, ())                                                          \
  F(std::int32_t, aoti_torch_dtype_float32, ())                                                          \
  F(std::int32_t, aoti_torch_dtype_float16, ())                                                          \
  F(std::int32_t, aoti_torch_dtype_bfloat16, ())                                                         \
  F(std::int32_t, aoti_torch_dtype_int64, ())                                                            \
  F(std::int32_t, aoti_torch_dtype_int32, ())                                                            \
  F(std::int32_t, aoti_torch_dtype_int8, ())                                                             \
  F(std::int32_t, aoti_torch_dtype_uint8, ())                                                            \
  F(std::int32_t, aoti_torch_dtype_bool, ())                                                             \
  F(std::int32_t, aoti_torch_memory_format_contiguous_format, ())                                        \
  F(std::int32_t, aoti_torch_memory_format_channels_last, ())                                            \
  F(AOTITorchError, aoti_torch_library_init_impl,                                                        \
    (const char* name, const char* key, const char* file, std::uint32_t line, TorchLibraryHandle* made)) \
  F(AOTITorchError, torch_library_impl,                                                                  \
    (TorchLibraryHandle, const char* name, StableKernel kernel, std::uint64_t version))                  \
  F(AOTITorchError, torch_call_dispatcher,                                                               \
    (const char* name, const char* overload, StableIValue* stack, std::uint64_t version))                \
  F(AOTITorchError, torch_new_list_reserve_size, (std::size_t size, StableListHandle * made))            \
  F(AOTITorchError, torch_list_push_back, (StableListHandle, StableIValue element))                      \
  F(AOTITorchError, torch_list_size, (StableListHandle, std::size_t * size))                             \
  F(AOTITorchError, torch_list_get_item, (StableListHandle, std::size_t index, StableIValue * element))  \
  F(AOTITorchError, torch_delete_list, (StableListHandle))                                               \
  F(AOTITorchError, torch_new_string_handle, (const char* data, std::size_t length, StringHandle* made)) \
  F(AOTITorchError, torch_string_c_str, (StringHandle, const char** data))                               \
  F(AOTITorchError, torch_string_length, (StringHandle, std::size_t * length))                           \
  F(AOTITorchError, torch_delete_string, (StringHandle))

#define UNISONO_LIBTORCH_FUNCTION(result, name, parameters) inline result(*name) parameters = nullptr;
UNISONO_LIBTORCH_FUNCTIONS(UNISONO_LIBTORCH_FUNCTION)
#undef UNISONO_LIBTORCH_FUNCTION

/// Fills the pointers above. Returns the name of a function that the loaded PyTorch lacks, or an empty text.
std::string load_libtorch();

/// A symbol of a library that the process has loaded, or null.
void* loaded_symbol(const char* library, const char* name);

/// The bytes of a number or of a handle as a value of the stack, and back.
template <class T>
StableIValue from(T value) {
  static_assert(sizeof(T) <= sizeof(StableIValue) && std::is_trivially_copyable_v<T>);
  StableIValue result = 0;
  std::memcpy(&result, &value, sizeof value);  // little-endian: the low bytes
  return result;
}
template <class T>
T to(StableIValue value) {
  static_assert(sizeof(T) <= sizeof(StableIValue) && std::is_trivially_copyable_v<T>);
  T result{};
  std::memcpy(&result, &value, sizeof result);
  return result;
}

}  // namespace unisono::python
