#pragma once
/// What Unisono makes of one network, against the float64 reference and against what another runtime made of it.

#include <string>
#include <vector>

#include "random_networks/case_file.hpp"
#include "unisono/network.hpp"

namespace unisono::test {

struct Verdict {
  enum class Kind {
    agrees,    ///< every element of every output of every run
    refused,   ///< UserError or Unsupported
    disputed,  ///< Unisono and the reference agree, and the other runtime does not; both read the model by one importer
    wrong,     ///< an element, a shape, a type, bits that change from run to run, memory beside an output
    failed,    ///< any other exception
  };
  Kind kind = Kind::agrees;
  std::string stage;      ///< of what is refused, wrong or failed: import, compile, run, reference, …
  std::string text;       ///< why
  double worst = 0;       ///< the largest error in units of its tolerance
  bool weak = false;      ///< a tolerance above half of the largest value: nothing much is proved
  bool close = false;     ///< a comparison or rounding upstream was too close to call for some element
  bool reference = true;  ///< false: the float64 reference lacks an operator, and only the other runtime was asked
  int operators = 0;      ///< of the network
  int kernels = 0;        ///< regions that are not free
  bool epilogue = false;  ///< a contraction has operators fused behind it
};

std::string_view to_string(Verdict::Kind kind);

/// Imports, compiles and runs the model. On the CPU: with one thread twice and with two threads, and without reuse of
/// memory or without fusion. On a GPU: twice. With `gradients` the network is that of the gradients of all outputs with
/// respect to all inputs and parameters, which are compared with central differences, too.
Verdict judge(const ModelWithData& model, const NetworkOptions& options, bool gradients = false);

/// Shapes of a model's inputs.
std::map<std::string, std::vector<std::int64_t>> shapes_of(const ModelWithData& model);

}  // namespace unisono::test
