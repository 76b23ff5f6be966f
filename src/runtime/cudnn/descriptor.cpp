#include "runtime/cudnn/descriptor.hpp"

#include <fmt/format.h>

namespace unisono::cudnn {

bool Calls::check(int status, const char* what) {
  if (failed()) return false;
  if (status != success) failure_ = fmt::format("{}: {}", what, library_.text_of(status));
  return !failed();
}

Descriptor::Descriptor(Calls& calls, DescriptorType type) : library_(calls.library()) {
  if (!calls.failed())
    calls.check(library_.call.BackendCreateDescriptor(type, &descriptor_), "making a descriptor of cuDNN");
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) library_.call.BackendDestroyDescriptor(descriptor_);
}

Descriptor& Descriptor::set(Calls& calls, Attribute name, AttributeType type, std::int64_t count, const void* values) {
  if (!calls.failed())
    calls.check(library_.call.BackendSetAttribute(descriptor_, name, type, count, values),
                "setting an attribute of cuDNN");
  return *this;
}

Descriptor& Descriptor::set(Calls& calls, Attribute name, const std::vector<BackendDescriptor>& values) {
  return set(calls, name, AttributeType::descriptor, static_cast<std::int64_t>(values.size()), values.data());
}

Descriptor& Descriptor::finish(Calls& calls, const char* what) {
  if (!calls.failed()) calls.check(library_.call.BackendFinalize(descriptor_), what);
  return *this;
}

std::int64_t Descriptor::int64_of(Calls& calls, Attribute name) const {
  std::int64_t value = 0, count = 0;
  if (!calls.failed())
    calls.check(library_.call.BackendGetAttribute(descriptor_, name, AttributeType::int64, 1, &count, &value),
                "reading an attribute of cuDNN");
  return value;
}

}  // namespace unisono::cudnn
