#include "command/kernel_run.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "command/interruption.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/replay.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/float_convert.hpp"
#include "unisono/cancel.hpp"
#include "unisono/tensor.hpp"

namespace unisono::command {
namespace {

/// The arguments in a GPU's memory, scalars by value.
class OnDevice {
 public:
  explicit OnDevice(KernelProblem& problem) : arguments_(problem.arguments()), outputs_(problem.outputs) {
    move(arguments_.a(problem.contraction)), move(arguments_.b(problem.contraction));
    if (product_count(problem.contraction) == 2) move(arguments_.right1);
    for (auto operand = arguments_.operands.begin(); operand != arguments_.operands.end();) {
      auto& [name, view] = *operand;
      if (!view.shape.empty()) {
        move(view);
        ++operand;
        continue;
      }
      arguments_.scalars[name] = support::load(view.data, 0, view.dtype);
      operand = arguments_.operands.erase(operand);
    }
    for (auto& [name, view] : arguments_.outputs) {
      move(view);
      downloads_.emplace_back(name, buffers_.back().get());
    }
  }
  const unisono::Arguments& arguments() const { return arguments_; }
  void download() const {
    for (const auto& [name, buffer] : downloads_) buffer->download(outputs_.at(name).bytes.data());
  }

 private:
  template <class View>
  void move(View& view) {
    const std::size_t bytes = static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype);
    buffers_.push_back(std::make_unique<cuda::DeviceBuffer>(0, view.data, bytes));
    view.data = buffers_.back()->data();
  }

  unisono::Arguments arguments_;
  Tensors& outputs_;
  std::vector<std::unique_ptr<cuda::DeviceBuffer>> buffers_;
  std::vector<std::pair<std::string, const cuda::DeviceBuffer*>> downloads_;
};

double milliseconds_of(const Executable& kernel, const unisono::Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  kernel.run(arguments);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Milliseconds of each replay.
std::vector<double> replay(const Executable& kernel, const unisono::Arguments& arguments, int repeat) {
  constexpr int at_once = 256;  // between which Ctrl-C is heard
  const cuda::OwnStream stream(0);
  const cuda::Replay graph(0, {kernel.bind(arguments)});
  std::vector<double> times;
  for (int left = repeat; left > 0; left -= at_once) {
    check_cancelled();
    const std::vector<double> some = graph.times(stream.get(), std::min(left, at_once));
    times.insert(times.end(), some.begin(), some.end());
  }
  return times;
}

}  // namespace

Timing run_kernel(const Executable& kernel, KernelProblem& problem, bool cuda, int repeat) {
  const Interruption interruption;
  double first_ms = 0;
  std::vector<double> times;
  if (cuda) {
    const OnDevice device(problem);
    first_ms = milliseconds_of(kernel, device.arguments());
    device.download();
    if (repeat > 0) times = replay(kernel, device.arguments(), repeat);
  } else {
    const unisono::Arguments arguments = problem.arguments();
    first_ms = milliseconds_of(kernel, arguments);
    for (int i = 0; i < repeat; ++i) times.push_back(milliseconds_of(kernel, arguments));
  }
  return timing_of(first_ms, times);
}

}  // namespace unisono::command
