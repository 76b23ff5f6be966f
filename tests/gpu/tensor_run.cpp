// Tensor kernels' launches on the GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "gpu/device.hpp"
#include "gpu/kernels.hpp"
#include "gpu/options.hpp"
#include "gpu/tensor_problem.hpp"
#include "lower/request.hpp"
#include "runtime/cuda/plain.hpp"
#include "tensors/fault.hpp"
#include "unisono/tensor.hpp"

namespace unisono::gpu {

namespace {

// A tensor's memory on the GPU
std::unique_ptr<Buffer> uploaded(const std::vector<std::byte>& memory) {
  auto buffer = std::make_unique<Buffer>(std::max<std::size_t>(memory.size(), 16));
  std::vector<std::byte> whole(buffer->bytes(), std::byte{0xff});
  std::copy(memory.begin(), memory.end(), whole.begin());
  buffer->upload(whole.data());
  return buffer;
}

// All memory of one run of some launches
class TensorRun {
 public:
  TensorRun(const tensors::Launches& launches, const std::vector<LaidTensor*>& tensors)
      : launches_(launches),
        scratch_(std::max<std::size_t>(launches.scratch_bytes, 16)),
        status_(sizeof(TensorStatus)) {
    for (const LaidTensor* t : tensors) tensors_.push_back(uploaded(t->memory));
    for (const std::vector<int>& table : launches.tables) {
      tables_.push_back(std::make_unique<Buffer>(table.size() * sizeof(int)));
      tables_.back()->upload(table.data());
    }
    const TensorStatus none{};
    status_.upload(&none);
  }

  void run() const {
    std::uint32_t number = 0;
    for (const tensors::Launch& l : launches_.list) {
      const std::vector<std::byte> parameters = complete(
          l, [this](const tensors::Address& a) { return memory(a).data(); }, ++number);
      const jit::Binary binary = compiler().compile({.source = l.source,
                                                     .headers = lower::device_headers(),
                                                     .entry = l.entry,
                                                     .title = "tensors: " + l.how,
                                                     .arch = device().device.arch()});
      const std::int64_t blocks = std::clamp<std::int64_t>((l.threads + 255) / 256, 1, most_blocks);
      cuda::bind_plain(cuda::load_plain(options().device, binary, l.entry, parameters.size()),
                       {static_cast<std::uint32_t>(blocks), 256}, parameters, l.how)
          .enqueue(nullptr);
    }
    wait(nullptr, "tensor kernels");
  }

  std::vector<std::byte> contents(std::size_t tensor, std::size_t bytes) const {
    std::vector<std::byte> memory = tensors_[tensor]->contents();
    memory.resize(bytes);
    return memory;
  }
  std::string fault() const {
    TensorStatus status{};
    status_.download(&status);
    return tensors::text_of(status);
  }
  void expect_guards() const {
    for (const auto* list : {&tensors_, &tables_})
      for (const auto& buffer : *list) EXPECT_TRUE(buffer->guards_hold());
    EXPECT_TRUE(scratch_.guards_hold() && status_.guards_hold());
  }

 private:
  static constexpr std::int64_t most_blocks = 64;  // fewer than there is work for, so that threads go on

  const Buffer& memory(const tensors::Address& a) const {
    switch (a.of) {
      case tensors::Address::Of::tensor: return *tensors_.at(a.number);
      case tensors::Address::Of::table: return *tables_.at(a.number);
      case tensors::Address::Of::scratch: return scratch_;
      default: return status_;
    }
  }

  const tensors::Launches& launches_;
  Buffer scratch_, status_;
  std::vector<std::unique_ptr<Buffer>> tensors_, tables_;
};

// Bytes beside a tensor's elements are as they were
void expect_gaps(const LaidTensor& before, const std::vector<std::byte>& after) {
  std::vector<bool> is_element(before.memory.size(), false);
  for (std::int64_t i = 0; i < element_count(before.at.shape); ++i) {
    const auto first = is_element.begin() + static_cast<std::ptrdiff_t>(place_of(before, i));
    std::fill_n(first, size_of(before.at.type.memory), true);
  }
  for (std::size_t i = 0; i < after.size(); ++i)
    if (!is_element[i] && after[i] != before.memory[i]) {
      ADD_FAILURE() << "byte " << i << " beside the elements of a tensor was written";
      return;
    }
}

}  // namespace

void run_on_gpu(const tensors::Launches& launches, const std::vector<LaidTensor*>& tensors, std::string* fault) {
  std::vector<std::vector<std::byte>> first;
  for (int time = 0; time < 2; ++time) {
    TensorRun run(launches, tensors);
    run.run();
    run.expect_guards();
    const std::string told = run.fault();
    if (fault != nullptr) {
      *fault = told;
    } else {
      EXPECT_EQ(told, "");
    }
    std::vector<std::vector<std::byte>> bytes;
    for (std::size_t i = 0; i < tensors.size(); ++i) bytes.push_back(run.contents(i, tensors[i]->memory.size()));
    if (time == 0) first = bytes;
    EXPECT_EQ(first, bytes) << "a second run leaves other bits";
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    expect_gaps(*tensors[i], first[i]);
    tensors[i]->memory = std::move(first[i]);
  }
}

}  // namespace unisono::gpu
