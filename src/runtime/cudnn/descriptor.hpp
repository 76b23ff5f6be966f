#pragma once
/// Descriptors of cuDNN's backend, built attribute by attribute.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cudnn/library.hpp"

namespace unisono::cudnn {

/// Calls of which the first failure ends the rest, which then do nothing.
class Calls {
 public:
  explicit Calls(const Library& library) : library_(library) {}
  const Library& library() const { return library_; }
  /// False, with the first failure kept, unless the status is success.
  bool check(int status, const char* what);
  bool failed() const { return !failure_.empty(); }
  /// "making a plan: CUDNN_STATUS_NOT_SUPPORTED: …"; empty unless failed().
  const std::string& failure() const { return failure_; }

 private:
  const Library& library_;
  std::string failure_;
};

/// Owns one of cuDNN's descriptors. `calls` must outlive what sets attributes, and the library the descriptor.
class Descriptor {
 public:
  Descriptor(Calls& calls, DescriptorType type);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  Descriptor& set(Calls& calls, Attribute name, AttributeType type, std::int64_t count, const void* values);
  template <class T>
  Descriptor& set(Calls& calls, Attribute name, AttributeType type, const T& value) {
    return set(calls, name, type, 1, &value);
  }
  Descriptor& set(Calls& calls, Attribute name, const Descriptor& value) {
    return set(calls, name, AttributeType::descriptor, 1, &value.descriptor_);
  }
  Descriptor& set(Calls& calls, Attribute name, const std::vector<BackendDescriptor>& values);
  /// `what` is said of a failure: "describing attention".
  Descriptor& finish(Calls& calls, const char* what);
  std::int64_t int64_of(Calls& calls, Attribute name) const;
  BackendDescriptor get() const { return descriptor_; }

 private:
  const Library& library_;
  BackendDescriptor descriptor_ = nullptr;
};

}  // namespace unisono::cudnn
