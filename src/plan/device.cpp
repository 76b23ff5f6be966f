#include "plan/device.hpp"

namespace unisono::plan {
namespace {

/// What chips keep under load of the rates that their reported clocks stand for.
struct Shares {
  double clock;   ///< the SMs' where power does not bound them
  double tensor;  ///< products of matrices
  double memory;  ///< reads and writes
};

// An H200 reports SMs at 1.98 GHz, where they would make 1070 TFLOP/s, and memory at 3.201 GHz on 6016 wires, 4.81
// TB/s. Large products run at 800 TFLOP/s there and copies at 4.2 TB/s; kernels that power does not bound keep 1.755
// GHz.
constexpr Shares of_an_h200{1.755 / 1.98, 800 / (132 * 4096 * 1.98e-3), 4.2 / (2 * 3.201e-3 * 6016 / 8)};
constexpr Shares estimated{0.9, 0.8, 0.85};

/// What an SM does in a clock.
struct Architecture {
  int capability;           ///< compute capability times 10
  int threads;              ///< that an SM holds at once
  int lanes;                ///< multiply-adds of f32
  int tensor_flop;          ///< bf16 and f16 with sums in f32
  double share_of_geforce;  ///< a part of tensor_flop: products for games have half of it
  Shares shares;
};

// By NVIDIA's data sheets: dense TFLOP/s over SMs and boost clock; threads by the CUDA C++ Programming Guide
constexpr std::array architectures{
    Architecture{75, 1024, 64, 1024, 0.5, estimated},    // T4: 65 TFLOP/s of f16, 40 SMs, 1.59 GHz
    Architecture{80, 2048, 64, 2048, 1.0, estimated},    // A100: 312, 108, 1.41
    Architecture{86, 1536, 128, 1024, 0.5, estimated},   // A40: 149.7, 84, 1.74; GeForce RTX 3090: 71, 82, 1.695
    Architecture{87, 1536, 128, 2048, 1.0, estimated},   // Jetson AGX Orin: 42.5, 16, 1.3
    Architecture{89, 1536, 128, 1024, 0.5, estimated},   // L4: 121, 58, 2.04; GeForce RTX 4090: 165.2, 128, 2.52
    Architecture{90, 2048, 128, 4096, 1.0, of_an_h200},  // H100: 989, 132, 1.83, where the driver reports 1.98
    Architecture{100, 2048, 128, 8192, 1.0, estimated},  // B200: 2250, 148, 1.86
    Architecture{120, 1536, 128, 1024, 0.5,
                 estimated},  // RTX PRO 6000: 503.8, 188, 2.617; GeForce RTX 5090: 209.5, 170, 2.407
};

// For what is not reported, as of memory that GPU and CPU share: rather less than such chips have
constexpr int unreported_clock_khz = 1'500'000;
constexpr double unreported_memory_tbps = 0.2;

const Architecture& architecture_of(const DeviceAttributes& a) {
  const Architecture* found = &architectures.front();
  for (const Architecture& x : architectures)
    if (a.major * 10 + a.minor >= x.capability) found = &x;
  return *found;
}

}  // namespace

Device described(const DeviceAttributes& a) {
  const Architecture& chip = architecture_of(a);
  const bool geforce = a.name.find("GeForce") != a.name.npos;
  const double ghz = (a.clock_khz > 0 ? a.clock_khz : unreported_clock_khz) * 1e-6;
  const double tbps = 2e-9 * a.memory_clock_khz * a.memory_bus_bits / 8;
  Device d;
  d.name = a.name;
  d.major = a.major, d.minor = a.minor, d.sms = a.sms;
  d.shared_bytes = a.shared_bytes, d.l2_bytes = a.l2_bytes;
  d.resident_ctas = {0, a.sms};
  d.threads = chip.threads, d.lanes = chip.lanes;
  d.clock_ghz = chip.shares.clock * ghz;
  d.tensor_tflops =
      chip.shares.tensor * a.sms * chip.tensor_flop * (geforce ? chip.share_of_geforce : 1.0) * ghz * 1e-3;
  d.memory_tbps = tbps > 0 ? chip.shares.memory * tbps : unreported_memory_tbps;
  return d;
}

}  // namespace unisono::plan
