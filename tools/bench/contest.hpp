#pragma once
/// One case against its peers.

#include <future>
#include <map>
#include <memory>

#include "bench/bench.hpp"
#include "bench/ceilings.hpp"
#include "bench/cublaslt.hpp"
#include "bench/cudnn.hpp"
#include "bench/kernels.hpp"
#include "bench/peer_program.hpp"
#include "bench/report.hpp"

namespace unisono::bench {

/// What can be run of a case; where a part is missing, `error` says why.
struct Prepared {
  const Case* c = nullptr;
  std::optional<Variants> variants, bare;
  std::string error;

  struct Rival {
    std::string name;
    std::optional<Variants> variants;  ///< as many as its plans
    std::string error;                 ///< why there are none
  };
  std::vector<Rival> rivals;  ///< as Case::rivals
};

/// Plans and generates; needs no GPU.
Prepared prepare(const Case& c, const plan::Device& device, const Options& options);

struct Peers {
  std::unique_ptr<Cudnn> cudnn;  ///< null: there is none, and `cudnn_error` says why (empty: it was not asked for)
  std::string cudnn_error;
  std::unique_ptr<Cublaslt> cublaslt;  ///< the same for products
  std::string cublaslt_error;
  std::unique_ptr<PeerProgram> beside;  ///< null: there is none, or it failed, and the next case looks for it anew
};

/// A case that was timed, and whose comparison with the reference may still go on.
struct Contest {
  Result result;
  struct Judged {
    Checked own;
    std::map<std::string, Checked> rivals;  ///< by name
  };
  std::future<Judged> checking;  ///< may be invalid: nothing to wait for

  /// Waits for the comparison, and adds to the result what it found.
  void collect();
};

/// Times the case, one of `suite`. Never throws for what concerns this case alone; DeviceError if the GPU's context is
/// broken.
Contest run_contest(const Prepared& prepared, const std::string& suite, const Ceilings& ceilings, Peers& peers,
                    const Options& options);

}  // namespace unisono::bench
