#pragma once
/// Networks with operators that the host computes.

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/network_problem.hpp"

namespace unisono::gpu {

struct HostCase {
  const char* name;
  std::function<Network()> make;
  Shapes shapes;
  std::size_t steps;     ///< host steps
  std::size_t unserved;  ///< operators that the host computes
};
const std::vector<HostCase>& host_cases();
inline void PrintTo(const HostCase& c, std::ostream* out) { *out << c.name; }

/// While this lives, the host computes these operators, whichever kernels there are.
struct OperatorsOnHost {
  OperatorsOnHost();
  ~OperatorsOnHost();
  OperatorsOnHost(const OperatorsOnHost&) = delete;
  OperatorsOnHost& operator=(const OperatorsOnHost&) = delete;
};

/// x along an axis in reverse: a gather, which rounds nothing, on the host.
NetworkValue reversed(NetworkValue x, int axis, const std::string& name);

/// Two convolutions with a reversal between them.
Network reversed_between_convolutions();

/// data (8, 16) and places (4), which are rounded to indices: data[places].
Network gathered_rows();

}  // namespace unisono::gpu
