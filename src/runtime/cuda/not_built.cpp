/// In place of the backend where the CUDA toolkit's headers were not found.

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/cudnn_attention.hpp"
#include "runtime/cuda/plain.hpp"
#include "runtime/cuda/replay.hpp"
#include "runtime/cuda/stream.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {
[[noreturn]] void refuse() {
  throw Unsupported(
      "device cuda: this build of Unisono has no CUDA backend, because no CUDA toolkit of version 12 or later was "
      "found "
      "when "
      "it was configured; install one and configure with -DUNISONO_CUDA=ON, or use Device::cpu");
}
}  // namespace

bool built_in() { return false; }
plan::Device open_device(int) { refuse(); }

std::size_t peak_memory(int) { refuse(); }

struct DeviceBuffer::Impl {};
DeviceBuffer::DeviceBuffer(int, const void*, std::size_t) { refuse(); }
DeviceBuffer::DeviceBuffer(int, std::size_t, const std::string&) { refuse(); }
DeviceBuffer::~DeviceBuffer() = default;
std::size_t DeviceBuffer::bytes() const { refuse(); }
void* DeviceBuffer::data() const { refuse(); }
void DeviceBuffer::upload(const void*) { refuse(); }
void DeviceBuffer::download(void*) const { refuse(); }

std::shared_ptr<const ExecutableImpl> build(lower::Lowered, jit::Binary) { refuse(); }

std::shared_ptr<const PlainKernel> load_plain(int, const jit::Binary&, const std::string&, std::size_t) { refuse(); }
Launch bind_plain(std::shared_ptr<const PlainKernel>, PlainGrid, std::span<const std::byte>, std::string,
                  std::span<const families::Parameter::Map>) {
  refuse();
}

plan::Expected<std::shared_ptr<const cudnn::AttentionPlan>> plan_attention(int, const cudnn::Library&,
                                                                           const cudnn::AttentionProblem&) {
  refuse();
}
Launch bind_attention(int, std::shared_ptr<const cudnn::AttentionPlan>, std::span<void* const>, void*) { refuse(); }

struct Replay::Impl {};
GraphBy graph_by() { refuse(); }
Replay::Replay(int, std::vector<Launch>, std::vector<std::string>, GraphBy, LaunchOrder) { refuse(); }
std::string Replay::describe() const { refuse(); }
Replay::~Replay() = default;
void Replay::enqueue(Stream) const { refuse(); }
bool Replay::is_captured(Stream) const { refuse(); }
void Replay::copy_ahead(void*, const void*, std::size_t, Stream) const { refuse(); }
std::vector<double> Replay::times(Stream, int) const { refuse(); }
std::size_t Replay::kernel_nodes() const { refuse(); }
std::vector<double> Replay::time_each(Stream) const { refuse(); }

[[noreturn]] const Gpu& gpu(int) { refuse(); }
OwnStream::OwnStream(int device_index) : gpu_(gpu(device_index)) { refuse(); }
OwnStream::~OwnStream() = default;

void copy(int, void*, const void*, std::size_t, Stream) { refuse(); }
void wait(int, Stream) { refuse(); }
bool is_device_memory(int, const void*) { refuse(); }
void check_lies_on(int, const void*, std::size_t, const std::string&) { refuse(); }
void check_usable(int) { refuse(); }
bool is_captured(int, Stream) { refuse(); }
void when_graph_is_gone(int, Stream, std::function<void()>) { refuse(); }
void clear(int, void*, std::size_t, Stream) { refuse(); }
unsigned long long stream_number(int, Stream) { refuse(); }

}  // namespace unisono::cuda
