#include "unisono/executable.hpp"

#include "runtime/common/executable_impl.hpp"
#include "unisono/error.hpp"

namespace unisono {

void ExecutableImpl::enqueue(const Arguments&, Stream) const {
  throw UserError(
      "Executable::enqueue needs a stream of a GPU, and this executable was compiled for the CPU; call run(), or "
      "compile it with CompileOptions::device = Device::cuda");
}

std::shared_ptr<LaunchImpl> ExecutableImpl::bind(const Arguments&, const WorkspaceMemory&) const {
  throw UserError(
      "Executable::bind makes launches for a GPU, and this executable was compiled for the CPU; call run(), or compile "
      "it with CompileOptions::device = Device::cuda");
}

void Executable::run(const Arguments& arguments) const { impl_->run(arguments); }
void Executable::enqueue(const Arguments& arguments, Stream stream) const { impl_->enqueue(arguments, stream); }
Launch Executable::bind(const Arguments& arguments, const WorkspaceMemory& workspace) const {
  return Launch(impl_->bind(arguments, workspace));
}
void Executable::check_arguments(const Arguments& arguments) const { impl_->check_arguments(arguments); }
std::size_t Executable::workspace_bytes() const { return impl_->workspace_bytes(); }
std::string Executable::describe() const { return impl_->describe(); }

namespace {
[[noreturn]] void refuse_slots() {
  throw InternalError("a launch of a network's plain kernel was asked for its arguments; it has none");
}
}  // namespace

std::size_t LaunchImpl::slot(std::string_view) const { refuse_slots(); }
void LaunchImpl::rebind(std::size_t, const void*) { refuse_slots(); }
void LaunchImpl::rebind(std::size_t, double) { refuse_slots(); }
void LaunchImpl::use(const WorkspaceMemory&) { refuse_slots(); }

std::size_t Launch::slot(std::string_view name) const { return impl_->slot(name); }
void Launch::rebind(std::size_t slot, const void* data) { impl_->rebind(slot, data); }
void Launch::rebind(std::size_t slot, double value) { impl_->rebind(slot, value); }
void Launch::use(const WorkspaceMemory& workspace) { impl_->use(workspace); }
std::size_t Launch::workspace_bytes() const { return impl_->workspace_bytes(); }
void Launch::enqueue(Stream stream) const { impl_->enqueue(stream); }

}  // namespace unisono
