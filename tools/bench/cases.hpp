#pragma once
/// Cases of the GPU benchmark, as text (docs/performance.md gives the form).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::bench {

/// Another family's kernels that a case is timed with; the fastest of them is reported.
struct Rival {
  std::string name;                ///< "cutlass_sm90a"
  std::vector<std::string> plans;  ///< as CompileOptions::plan
};

struct Case {
  std::string name;      ///< unique in its suite: the shape, and the epilogue's title where a suite has several
  std::string shape;     ///< as it was written: "8,64,64,320,320,3", or of a product "4096,4096,4096"
  Conv2d conv;           ///< square padding of half the filter unless said otherwise; of a product its rows'
  std::string epilogue;  ///< its title
  std::string text;      ///< the epilogue in the text form, see docs/text-form.md
  Graph graph;           ///< what the text says
  std::string plan;      ///< CompileOptions::plan
  int line = 0;          ///< in the file
  std::vector<Rival> rivals = {};
  std::optional<Gemm> product = {};   ///< A (m, k) times B (n, k) transposed; dual if the epilogue reads acc1
  std::optional<Conv3d> volume = {};  ///< then `conv` has its planes one below the other
  bool dgrad = false;                 ///< the gradient of the image of `conv`, not that convolution

  /// What a peer's bare product computes: the same contraction, of a dual product one of twice as many columns.
  Contraction bare_contraction() const;
  Contraction contraction() const {
    return product  ? Contraction(*product)
           : volume ? Contraction(*volume)
           : dgrad  ? Contraction(input_gradient(conv))
                    : Contraction(conv);
  }

  /// True if the epilogue stores the accumulator alone: a peer's bare convolution does the same.
  bool is_bare() const;
  /// Every operand read once, every output written once.
  double bytes() const;
  double flop() const;
};

struct Suite {
  std::string name;
  std::vector<Case> cases;
};

/// Throws UserError with `where`, the line's number and what was expected.
Suite parse_suite(std::string_view text, const std::string& where);

/// The same from a file.
Suite read_suite(const std::filesystem::path& file);

/// Keeps the cases whose name contains `text`. Throws UserError with the names if none does.
void keep_only(Suite& suite, const std::string& text);

/// The epilogue that stores the accumulator in `dtype`.
Graph bare_graph(DType dtype);

/// How many sets of operands are rotated so that none is found in L2: more than 200 MB in all.
int rotating_sets(double bytes_of_a_set);

/// Dtype in memory of an operand of a graph.
DType storage_of(const Node& operand);

/// A tensor that a kernel reads beside what its contraction multiplies.
struct OperandTensor {
  std::string name;
  Axes axes;
  DType dtype{};
  std::vector<std::int64_t> shape;
};

/// Each once, in the order of their nodes.
std::vector<OperandTensor> operand_tensors(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::bench
