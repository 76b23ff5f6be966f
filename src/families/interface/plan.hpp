#pragma once
/// One way to run one problem, as far as every family's plans are alike: the launch, and what its users must know of
/// it. Each family derives its own from it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "families/interface/override.hpp"
#include "plan/epilogue.hpp"
#include "unisono/dtype.hpp"

namespace unisono::families {

class Family;

struct Plan {
  virtual ~Plan() = default;

  const Family* family = nullptr;  ///< whose plan it is; set by Family::candidates

  // The launch
  int threads = 0, ctas = 0;     ///< whole clusters
  int cluster = 1;               ///< CTAs of one
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of a CTA
  std::size_t workspace_bytes = 0;
  bool cooperative = false;  ///< its CTAs wait for one another
  double predicted_us = 0;

  /// Tensors whose pixels may lie apart.
  bool pitched_image = true, pitched_output = true;
  /// Its kernel is made for convolutions of several groups; what else serves them goes element by element.
  bool made_for_groups = false;
  std::size_t form = 0;   ///< its kernel is of this one of plan::Forms::list
  bool exclusive = true;  ///< its CTAs leave no room on their SMs for those of another kernel

  /// The moments that it stores: channels of an entry (0: none are stored), and entries.
  struct Moments {
    int unit = 0, images = 0, slots = 0;
  } moments;

  /// What decides how far results may be from the exact ones.
  struct Numerics {
    bool folds = false;    ///< reductions are joined in the order of tiles, whatever the epilogue calls them
    int kept_columns = 0;  ///< values that wait in memory share a centre with so many channels; 0: none wait so
    bool centred = true;   ///< by that centre; else they wait as they are
    std::optional<DType> kept = {};  ///< the type in which they wait; absent: the main store's, of 16 bits
  } numerics;

 protected:
  Plan() = default;
  Plan(const Plan&) = default;
  Plan(Plan&&) = default;
  Plan& operator=(const Plan&) = default;
  Plan& operator=(Plan&&) = default;
};

using PlanPointer = std::shared_ptr<const Plan>;

/// Shape of the stored moments in memory, f32: images, slots, units, then mean, M2, count and nothing.
std::vector<std::int64_t> moments_shape(const Plan& plan, std::int64_t output_channels);

}  // namespace unisono::families
