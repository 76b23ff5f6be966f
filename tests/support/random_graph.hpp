#pragma once
/// Random epilogue graphs with random contractions and arguments: the same seed gives the same case everywhere.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::test {

struct RandomOptions {
  int operations = 10;  ///< operations or idioms drawn, guards aside
  int stores = 5;       ///< at most; at least one, or an effect

  // Chances
  double wild = 0.02;       ///< an argument is not guarded: log of a negative number, division by zero, overflow, …
  double special = 0.0;     ///< an element of an operand is ±0, ±infinity, NaN, huge or subnormal
  double idiom = 0.35;      ///< a composite that a pass may recognise is drawn instead of one operation
  double short_cast = 0.1;  ///< a value is cast to bf16, f16 or tf32 and so computed on in that dtype
  double forms = 0;         ///< a store has others of the same value beside it: pooled, upsampled
  double strided = 0.1;     ///< an [m,n] operand has padding between its rows

  // What may occur
  bool reductions = true;
  bool normalisations = true;
  bool coordinates = true;
  bool functions = true;      ///< user functions that return a value
  bool effects = true;        ///< user functions that return nothing
  bool f64 = true;            ///< operands and casts of dtype f64
  bool f16 = true;            ///< operands, casts and stores of dtype f16
  bool short_storage = true;  ///< operands in memory as bf16 (and f16)
  bool convolutions = true;
  bool transposed_convolutions = true;
  bool bf16_contraction = true;  ///< A and B may be bf16
};

/// What the effects of a graph saw, in any order.
struct EffectLog {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> sum_of_hashes{0};  ///< of the arguments' bits
};

/// Memory of one tensor.
struct Buffer {
  std::vector<std::byte> bytes;
  ConstTensorView view;
};

/// A problem with everything that running it needs. Movable; `arguments` points into `buffers`.
struct RandomCase {
  std::uint64_t seed = 0;
  Contraction contraction;
  Graph graph;
  Arguments arguments;                   ///< complete: a, b, operands, scalars, outputs
  std::map<std::string, DType> storage;  ///< dtype in memory of the operands that declare none: CompileOptions::storage
  std::list<Buffer> buffers;
  std::shared_ptr<EffectLog> effects;

  RandomCase() = default;
  RandomCase(RandomCase&&) = default;
  RandomCase& operator=(RandomCase&&) = default;
};

/// Other forms of one of the graph's stores, if the contraction has any for it, with the chance RandomOptions::forms.
void add_random_forms(Graph& graph, const Contraction& contraction, std::uint64_t seed, const RandomOptions& options);

RandomCase random_case(std::uint64_t seed, const RandomOptions& options = {});

/// A contraction of a few hundred elements at most.
Contraction random_contraction(std::uint64_t seed, const RandomOptions& options = {});

/// A legal graph whose group counts divide `extents.cols`. Effects report to `log`.
Graph random_graph(std::uint64_t seed, const Extents& extents, const RandomOptions& options = {},
                   std::shared_ptr<EffectLog> log = {});

/// Arguments for `graph`, written to the case (whose contraction and graph are set): operands, scalars and poisoned
/// outputs.
void random_arguments(RandomCase& c, std::uint64_t seed, const RandomOptions& options = {});

/// Fills every output of the case with bytes 0xff: NaN in the float dtypes.
void poison_outputs(RandomCase& c);

/// Shape in memory of a value with these axes: {}, (images), (rows), (cols), (images, cols), (images, groups),
/// (rows, groups), or shape_mn.
std::vector<std::int64_t> shape_in_memory(const Axes& axes, const Contraction& contraction);

}  // namespace unisono::test
