#pragma once
/// A GPU of a few SMs, in one thread of the host: what a kernel's instructions do to CTAs, warps, shared
/// memory and barriers. Kernels are compiled for the host (compiler.cpp) with device/*.cuh in place of the headers of
/// kernels/unisono that hold instructions; those call the functions below.
///
/// Threads are fibers, switched at barriers and polls. Whatever the hardware may delay is delayed here: matrix
/// instructions read their operands when they are waited for, and TMA works when the scheduler, by chance,
/// lets it. So a stage released too early or a buffer reused too early gives wrong results, and a lost arrival a
/// deadlock, which is reported. What is not modelled: time, caches, fences between proxies, register counts.

#include <cstddef>
#include <cstdint>

namespace unisono_emulator {

#define UNISONO_EMULATOR_API __attribute__((visibility("default")))

struct Index {
  unsigned x, y, z;
};

// --- the running thread -------------------------------------------------------------------------------------------

UNISONO_EMULATOR_API Index thread_index();
UNISONO_EMULATOR_API Index cta_index();
UNISONO_EMULATOR_API Index cta_extent();
UNISONO_EMULATOR_API Index grid_extent();
UNISONO_EMULATOR_API unsigned cluster_rank();

/// Lets others run: in the body of every loop that polls memory.
UNISONO_EMULATOR_API void pause();
/// Lets others run, of a thread that waits for nothing.
UNISONO_EMULATOR_API void delay();
/// A number that differs from call to call, for clocks.
UNISONO_EMULATOR_API std::uint64_t ticks();

// --- shared memory: addresses count from the start of the CTA's window
// ----------------------------------------------

UNISONO_EMULATOR_API std::uint8_t* dynamic_shared();
UNISONO_EMULATOR_API std::uint32_t shared_address(const void* pointer);

// --- barriers. All lanes of a warp, all threads of a CTA, all of a cluster
// ------------------------------------------

UNISONO_EMULATOR_API void sync_warp();
UNISONO_EMULATOR_API void sync_cta();
UNISONO_EMULATOR_API void sync_cluster();
UNISONO_EMULATOR_API void sync_named(int id, int threads);
/// The value that lane `source` of the warp gave; by all lanes.
UNISONO_EMULATOR_API std::uint32_t shuffle(std::uint32_t value, int source);

UNISONO_EMULATOR_API void mbarrier_init(std::uint32_t barrier, unsigned arrivals);
UNISONO_EMULATOR_API void mbarrier_arrive(std::uint32_t barrier, std::int32_t expected_bytes);
UNISONO_EMULATOR_API void mbarrier_arrive_cluster(std::uint32_t barrier, unsigned rank);
/// Whether the phase of this parity is complete; lets others run once if not.
UNISONO_EMULATOR_API bool mbarrier_try_wait(std::uint32_t barrier, unsigned parity);

// --- TMA. `map`: a CUtensorMap of this emulator; `ctas`: bits of the cluster's CTAs, 0: this one
// --------

struct Coordinates {
  int at[5];
  std::uint16_t offset[3];  ///< im2col: of w, h and, of volumes, d
};
UNISONO_EMULATOR_API void copy_load(std::uint32_t to, const void* map, std::uint32_t barrier, const Coordinates& from,
                                    unsigned ctas);
UNISONO_EMULATOR_API void copy_store(const void* map, std::uint32_t from, const Coordinates& to);
/// Bytes as they lie.
UNISONO_EMULATOR_API void bulk_load(std::uint32_t to, const void* from, std::uint32_t barrier, std::uint32_t bytes);
UNISONO_EMULATOR_API void bulk_store(void* to, std::uint32_t from, std::uint32_t bytes);
UNISONO_EMULATOR_API void copy_commit();
/// Until at most `pending` of this thread's groups of stores are outstanding.
UNISONO_EMULATOR_API void copy_wait(int pending);

// --- matrices -----------------------------------------------------------------------------------------------------

enum class MatrixElement : std::uint8_t { bf16, f16, tf32 };
/// A matrix in shared memory by its descriptor; `columns`: MN-major, else K-major.
struct MatrixOperand {
  std::uint64_t descriptor;
  bool columns;
};
/// d (64, n) of the warpgroup += a (64, 16) b (n, 16)^T; done when waited for. By all its threads.
UNISONO_EMULATOR_API void multiply(float* d, MatrixOperand a, MatrixOperand b, int n, MatrixElement element,
                                   bool accumulate);
/// The same with the registers of a as multiply_fragments() has them, read when this is called.
UNISONO_EMULATOR_API void multiply_of_fragments(float* d, const std::uint32_t* a, MatrixOperand b, int n,
                                                MatrixElement element, bool accumulate);
UNISONO_EMULATOR_API void multiply_commit();
UNISONO_EMULATOR_API void multiply_wait(int pending);
/// mma.sync m16n8k16, of tf32 m16n8k8: d += a b, four, four and two registers of each lane; by all lanes of a warp.
UNISONO_EMULATOR_API void multiply_fragments(float* d, const std::uint32_t* a, const std::uint32_t* b,
                                             MatrixElement element);
/// stmatrix: `count` 8x8 matrices of 16-bit elements, by all lanes of a warp.
UNISONO_EMULATOR_API void store_matrices(std::uint32_t row, const std::uint32_t* registers, int count, bool transposed);
/// cp.async of 4, 8 or 16 bytes to shared memory, of which `read` are read and the others are zeros; and its groups.
UNISONO_EMULATOR_API void async_copy(std::uint32_t to, const void* from, std::uint32_t read, std::uint32_t bytes);
UNISONO_EMULATOR_API void async_commit();
/// Until at most `pending` of this thread's groups are outstanding.
UNISONO_EMULATOR_API void async_wait(int pending);
/// ldmatrix, as store_matrices.
UNISONO_EMULATOR_API void load_matrices(std::uint32_t row, std::uint32_t* registers, int count, bool transposed);

/// griddepcontrol.wait. The launches ahead end as late as they can: when no thread gets on without that. Until then no
/// device memory can be touched, if the launch depends on them programmatically: whoever does ends the process. TMA
/// alone may load what no launch has written since it was allocated; to load anything else is an error of the launch.
UNISONO_EMULATOR_API void await_launches_ahead();

/// Ends the launch with an error, as an illegal access does on a GPU.
[[noreturn]] UNISONO_EMULATOR_API void fail(const char* what);

// --- kernels ------------------------------------------------------------------------------------------------------

/// What a compiled kernel exports, as NAME__entry.
struct Entry {
  void (*call)(void** parameters);
  const std::size_t* parameter_bytes;  ///< ends with 0
};

}  // namespace unisono_emulator
