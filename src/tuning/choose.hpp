#pragma once
/// Which plan a problem gets: one that was measured for it, else the cost model's.

#include <optional>
#include <string>

#include "families/registry.hpp"
#include "tuning/row.hpp"

namespace unisono::tuning {

enum class Origin : std::uint8_t {
  cost_model,
  fixed,    ///< the caller has fixed fields of it
  tuned,    ///< the user's database
  shipped,  ///< the plans that travel in the library
};

struct Chosen {
  families::PlanPointer plan;
  Origin origin = Origin::cost_model;
  std::optional<Row> row = {};  ///< tuned, shipped
  bool gathered = false;        ///< the row is that of the same problem with passes::gather_factors
};

/// families::choose, but where nothing is fixed a measured plan comes first: that of the user's database
/// (UNISONO_TUNING, see support/environment.hpp), then one that is shipped for the device. `measured` = false: the cost
/// model's. A row that cannot be read or is not legal for the problem, and a database that cannot be read, is a warning
/// on standard error, each once, and the next in line is taken. A problem for which there is no row takes that of
/// the same with its factors multiplied with one another (passes::gather_factors), if the plan serves it. Refuses and
/// throws as families::choose does.
plan::Expected<Chosen> choose(const families::Workload& workload, const PlanOverride& fixed = {}, bool measured = true);

/// "tuned on this GPU, 61.3 us measured"; for people.
std::string to_string(const Chosen& chosen);

}  // namespace unisono::tuning
