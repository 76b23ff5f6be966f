/// All that a program needs to have one family more.

#include "families/registry.hpp"
#include "mma_family/mma_conv.hpp"

namespace unisono::mma {
namespace {

const families::Registration registered(mma_conv(), families::Registration::Rank::first);

}  // namespace
}  // namespace unisono::mma
