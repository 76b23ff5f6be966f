/// ONNX files that run on the CPU: within the memory of their tensors, twice to the same bits, or refused.

#include "fuzz/execute.hpp"
#include "unisono/error.hpp"

// Anything but these two errors is a finding, an InternalError among them
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    if (const auto network = unisono::fuzz::small_model(data, size)) unisono::fuzz::execute(*network);
  } catch (const unisono::UserError&) {
  } catch (const unisono::Unsupported&) {
  }
  return 0;
}
