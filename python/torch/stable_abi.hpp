#pragma once
/// What libtorch's stable ABI hands over, with owners: tensors, lists and texts, and new ones of these.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "libtorch_api.hpp"

namespace unisono::python {

inline void check(AOTITorchError code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string("unisono: PyTorch failed at ") + what);
}

/// A tensor that is owned here.
class Tensor {
 public:
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }
  AtenTensorHandle get() const { return handle_; }
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }
  /// Another reference, for a call of the dispatcher.
  StableIValue shared() const {
    AtenTensorHandle copy = nullptr;
    check(aoti_torch_new_tensor_handle(handle_, &copy), "sharing a tensor");
    return from(copy);
  }
  void* address() const {
    void* data = nullptr;
    check(aoti_torch_get_data_ptr(handle_, &data), "asking for a tensor's memory");
    return data;
  }

 private:
  AtenTensorHandle handle_;
};

/// Lists and texts of the stack, which are the kernel's to delete.
class List {
 public:
  explicit List(StableIValue value) : handle_(to<StableListHandle>(value)) {}
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { torch_delete_list(handle_); }
  std::size_t size() const {
    std::size_t size = 0;
    check(torch_list_size(handle_, &size), "asking for a list's size");
    return size;
  }
  StableIValue operator[](std::size_t i) const {
    StableIValue element = 0;
    check(torch_list_get_item(handle_, i, &element), "reading a list");
    return element;
  }

 private:
  StableListHandle handle_;
};

class Text {
 public:
  explicit Text(StableIValue value) : handle_(to<StringHandle>(value)) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text() { torch_delete_string(handle_); }
  std::string_view view() const {
    const char* data = nullptr;
    std::size_t size = 0;
    check(torch_string_c_str(handle_, &data), "reading a text");
    check(torch_string_length(handle_, &size), "reading a text");
    return {data, size};
  }

 private:
  StringHandle handle_;
};

inline StableIValue string_value(std::string_view text) {
  StringHandle made = nullptr;
  check(torch_new_string_handle(text.data(), text.size(), &made), "making a text");
  return from(made);
}

template <class Range, class F>
StableIValue list_value(Range&& range, F value) {
  StableListHandle made = nullptr;
  check(torch_new_list_reserve_size(range.size(), &made), "making a list");
  for (auto&& one : range) check(torch_list_push_back(made, value(one)), "making a list");
  return from(made);
}

}  // namespace unisono::python
