#pragma once
/// A CUDA driver for tests: a libcuda.so.1 of our own, which keeps device memory on the host, runs nothing, records
/// every launch, and refuses what the real one refuses.

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

struct RecordedLaunch {
  CUstream stream{};
  CUcontext context{};
  unsigned grid = 0, block = 0, shared = 0;
  int cluster = 1;
  bool cooperative = false;
  bool dependent = false;  ///< programmatically, on the launch ahead
  std::vector<std::byte> parameters;
};

struct StreamState {
  unsigned long long id = 0;
  bool capturing = false;
  bool global = false;  ///< captured in the global mode, which binds other threads as well
};

/// Everything that a test may set and see. One in the process, found through the library's `fake_state`.
struct State {
  std::recursive_mutex mutex;
  // What the GPU is
  int gpus = 2, major = 9, minor = 0, multiprocessors = 132;
  std::string name = "Fake H200";
  int clusters_of_a_kernel = 1000;  ///< that fit, of kernels other than the empty one
  std::size_t parameter_bytes = 0;  ///< what a kernel declares
  CUresult next_launch = CUDA_SUCCESS, next_synchronize = CUDA_SUCCESS, next_alloc = CUDA_SUCCESS;
  // What happened
  std::vector<std::string> calls;  ///< names, in order
  std::vector<RecordedLaunch> launches;
  std::map<CUdeviceptr, std::size_t> memory;
  std::map<CUdeviceptr, int> foreign;  ///< memory of another GPU
  std::map<CUstream, StreamState> streams;
  std::map<CUmodule, int> modules;
  std::vector<std::string> attributes;  ///< "shared 200000"
  int captures = 0;                     ///< streams being captured in the global mode
  unsigned long long next_stream_id = 100;
};

inline void begin_capture(State& state, CUstream stream, CUstreamCaptureMode mode) {
  StreamState& s = state.streams.at(stream);
  s.capturing = true;
  s.global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  state.captures += s.global ? 1 : 0;
}
inline void end_capture(State& state, CUstream stream) {
  StreamState& s = state.streams.at(stream);
  s.capturing = false;
  state.captures -= s.global ? 1 : 0;
}

}  // namespace fake
