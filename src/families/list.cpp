#include "families/list.hpp"

#include "families/cutlass_evt/family.hpp"
#include "families/mma/family.hpp"
#include "families/plain/family.hpp"
#include "families/sm90_conv/family.hpp"
#include "families/sm90_depthwise/family.hpp"

namespace unisono::families {
namespace {

std::vector<const Family*>& families_in_order() {
  static std::vector<const Family*> list{&sm90_depthwise::family(), &sm90_conv::family(), &cutlass_evt::family(),
                                         &mma::family(), &plain::family()};
  return list;
}

}  // namespace

std::vector<const Family*> registry() { return families_in_order(); }

Registration::Registration(const Family& family, Rank rank) : family_(family) {
  auto& all = families_in_order();
  all.insert(rank == Rank::first ? all.begin() : all.end(), &family);
}
Registration::~Registration() { std::erase(families_in_order(), &family_); }

}  // namespace unisono::families
