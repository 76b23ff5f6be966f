#pragma once
/// Results as JSON and as a table.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/cases.hpp"
#include "bench/statistics.hpp"

namespace unisono::bench {

/// A plan that was tried.
struct Tried {
  std::string plan;
  double predicted_us = 0;
  double us = 0;      ///< time in a short measurement; 0 if it failed
  std::string error;  ///< why
};

/// Agreement with the float64 reference, as verify.hpp has it.
struct Checked {
  long long elements = 0, outside = 0, unclaimed = 0;
  double worst = 0, error = 0, tolerance = 0, largest_error = 0;
  bool repeats = true;
  bool may_vary = false;  ///< sums by atomic operations: a second run may give other bits
  bool ok() const { return outside == 0 && unclaimed == 0 && (repeats || may_vary) && elements > 0; }
};

/// A peer on a case: a library of NVIDIA's, cuDNN or cuBLASLt, a rival that the case names, or a contender of a program
/// beside this one.
struct PeerResult {
  std::string peer;  ///< "cudnn", "cublaslt"; "cublaslt_bare": the product alone, beside a case with an epilogue
  std::optional<Timing> time;
  std::string engine, error;
  double compile_seconds = 0;           ///< 0: nothing was compiled
  std::optional<Checked> checked = {};  ///< a rival's results
};

struct Result {
  std::string error;  ///< empty: it ran
  Timing unisono, again;
  std::string plan;
  double predicted_us = 0;
  int registers = 0;
  std::size_t spill_bytes = 0;
  double launches = 0;
  int sets = 0;
  double floor_us = 0;
  std::optional<Timing> bare;
  std::string bare_plan;
  std::vector<PeerResult> peers;
  std::vector<Tried> tried, bare_tried;
  std::optional<Checked> checked;
};

/// What the peers need to know of a case: name, shape, epilogue, operands, sets, operations, bytes.
nlohmann::json to_json(const Case& c);

/// An object of `cases` in bench/results/SUITE.json. `with_plans`: list the plans that were tried.
nlohmann::json to_json(const Case& c, const Result& result, bool with_plans);

/// A table of a suite's JSON: times, ratios, and below their geometric means over the cases that have them.
std::string table(const nlohmann::json& suite);

/// True if the case ran and agrees with the reference as far as it was compared.
bool is_good(const nlohmann::json& result);

/// Writes a file so that it is whole or as it was. Throws UserError with the path.
void write_json(const std::filesystem::path& file, const nlohmann::json& value);

}  // namespace unisono::bench
