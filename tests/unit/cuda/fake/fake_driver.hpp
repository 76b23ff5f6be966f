#pragma once
/// A CUDA driver for tests: a libcuda.so.1 of our own, which keeps device memory on the host, runs nothing, records
/// every launch, and refuses what the real one refuses.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/driver_api.hpp"

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
  bool global = false;          ///< captured in the global mode, which binds other threads as well
  bool blocking = true;         ///< waits for the legacy default stream
  bool invalidated = false;     ///< the capture is
  const void* graph = nullptr;  ///< that it is captured into
};

/// What a graph keeps alive
struct UserObject {
  CUhostFn destroy{};
  void* data = nullptr;
  unsigned references = 0;
};

/// Everything that a test may set and see. One in the process, found through the library's `fake_state`.
struct State {
  std::recursive_mutex mutex;
  // What the GPU is
  int gpus = 2, major = 9, minor = 0, sms = 132;
  std::string name = "Fake H200";
  int clock_khz = 1980000, memory_clock_khz = 3201000, memory_bus_bits = 6016, l2_bytes = 62914560;
  int clusters_of_a_kernel = 1000;  ///< that fit, of kernels other than the empty one
  std::size_t parameter_bytes = 0;  ///< what a kernel declares
  CUresult next_launch = CUDA_SUCCESS, next_synchronize = CUDA_SUCCESS, next_alloc = CUDA_SUCCESS;
  CUresult next_context_synchronize = CUDA_SUCCESS, next_retain = CUDA_SUCCESS;
  bool context_active = true;         ///< false after cudaDeviceReset
  unsigned long long context_id = 7;  ///< another one if a context was made after a reset
  bool knows_ranges = true;           ///< of allocations
  // What happened
  std::vector<std::string> calls;  ///< names, in order
  std::vector<RecordedLaunch> launches;
  std::map<CUdeviceptr, std::size_t> memory;
  std::map<CUdeviceptr, int> foreign;         ///< memory of another GPU
  std::map<CUdeviceptr, std::size_t> chunks;  ///< ranges of which allocations are parts: pools, reserved addresses
  std::map<const void*, std::vector<UserObject*>> retained;  ///< by graph, and by what is instantiated from one
  int user_objects = 0;
  std::map<CUstream, StreamState> streams;
  std::map<CUmodule, int> modules;
  std::vector<std::string> attributes;  ///< "shared 200000"
  int captures = 0;                     ///< streams being captured in the global mode
  unsigned long long next_stream_id = 100;
};

inline void begin_capture(State& state, CUstream stream, CUstreamCaptureMode mode) {
  StreamState& s = state.streams.at(stream);
  s.capturing = true, s.invalidated = false;
  s.global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  state.captures += s.global ? 1 : 0;
}
inline void end_capture(State& state, CUstream stream) {
  StreamState& s = state.streams.at(stream);
  s.capturing = false;
  state.captures -= s.global ? 1 : 0;
}

inline void release(State& state, UserObject* object) {
  if (--object->references > 0) return;
  object->destroy(object->data);
  delete object;
  --state.user_objects;
}
/// What keeps a graph's user objects: its copies, too.
inline void copy_references(State& state, const void* from, const void* to) {
  for (UserObject* object : state.retained[from]) ++object->references, state.retained[to].push_back(object);
}
inline void drop_references(State& state, const void* graph) {
  const auto objects = std::move(state.retained[graph]);
  state.retained.erase(graph);
  for (UserObject* object : objects) release(state, object);
}

}  // namespace fake
