#include "unisono/executable.hpp"

#include "runtime/common/executable_impl.hpp"
#include "unisono/error.hpp"

namespace unisono {

void ExecutableImpl::enqueue(const Arguments&, Stream) const {
  throw UserError(
      "Executable::enqueue needs a stream of a GPU, and this executable was compiled for the CPU; call run(), or "
      "compile it with CompileOptions::device = Device::cuda");
}

std::shared_ptr<const LaunchImpl> ExecutableImpl::bind(const Arguments&) const {
  throw UserError(
      "Executable::bind makes launches for a GPU, and this executable was compiled for the CPU; call run(), or compile "
      "it with CompileOptions::device = Device::cuda");
}

void Executable::run(const Arguments& arguments) const { impl_->run(arguments); }
void Executable::enqueue(const Arguments& arguments, Stream stream) const { impl_->enqueue(arguments, stream); }
Launch Executable::bind(const Arguments& arguments) const { return Launch(impl_->bind(arguments)); }
std::string Executable::describe() const { return impl_->describe(); }

void Launch::enqueue(Stream stream) const { impl_->enqueue(stream); }

}  // namespace unisono
