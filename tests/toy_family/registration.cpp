/// All that a program needs to have one family more.

#include "families/registry.hpp"
#include "toy_family/scalar_gemm.hpp"

namespace unisono::toy {
namespace {

const families::Registration registered(scalar_gemm(), families::Registration::Rank::first);

}  // namespace
}  // namespace unisono::toy
