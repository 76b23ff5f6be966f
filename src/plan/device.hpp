#pragma once
/// A GPU as planners see it.

#include <array>
#include <cstddef>
#include <string>

namespace unisono::plan {

/// What a plan needs to know of a GPU. The defaults are an H200's, so that plans can be made without one.
struct Device {
  std::string name = "NVIDIA H200";
  int major = 9, minor = 0;
  int sms = 132;
  std::size_t shared_bytes = 232448;  ///< that a CTA may have
  std::size_t l2_bytes = std::size_t{60} << 20;
  /// CTAs that are resident at once in clusters of 1 to 8 CTAs, one CTA an SM: resident_ctas[size].
  std::array<int, 9> resident_ctas{0, 132, 132, 126, 120, 110, 120, 105, 112};
  int threads = 2048;          ///< that an SM holds at once
  int lanes = 128;             ///< multiply-adds of f32 that an SM makes in a clock, without tensor cores
  double clock_ghz = 1.755;    ///< what SMs keep where power does not bound them
  double tensor_tflops = 800;  ///< bf16 and f16 with sums in f32, by all SMs, at the clock that power leaves
  double memory_tbps = 4.2;    ///< reads and writes together
  std::string driver = {};     ///< its version; empty where there is none
  std::string runs = {};       ///< the code that it runs, if it is planned for as another GPU (planned_as())

  /// What kernels for it are compiled for. From compute capability 9.0 on that is the architecture with the features
  /// that no later one need have: "sm_90a".
  std::string arch() const {
    return runs.empty() ? "sm_" + std::to_string(major) + std::to_string(minor) + (major >= 9 ? "a" : "") : runs;
  }
  /// CTAs of a cluster read one another's shared memory.
  bool has_clusters() const { return major >= 9; }
  /// A launch may begin while the one ahead of it in its stream ends, and has to wait for it by itself.
  bool has_dependent_launches() const { return major >= 9; }
};

/// What a driver reports of a GPU. 0 stands for what it does not report.
struct DeviceAttributes {
  std::string name;
  int major = 0, minor = 0;
  int sms = 0;
  std::size_t shared_bytes = 0, l2_bytes = 0;
  int clock_khz = 0;         ///< the highest of an SM
  int memory_clock_khz = 0;  ///< twice which each wire of the bus transfers a bit
  int memory_bus_bits = 0;
};

/// The device with these attributes: its rates are what its architecture does in a clock, times the share of the
/// reported clocks that chips keep under load (device.cpp has the table). An architecture without a row is taken for
/// the one before it, and a clock that is not reported is estimated. Which clusters are resident is
/// measured apart: here there are none.
Device described(const DeviceAttributes& attributes);

}  // namespace unisono::plan
