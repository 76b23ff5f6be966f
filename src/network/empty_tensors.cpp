#include "network/empty_tensors.hpp"

namespace unisono::network {

namespace {

struct TakesEmpty {
  bool operator()(const operators::Elementwise&) const { return true; }
  bool operator()(const operators::Concat&) const { return true; }
  bool operator()(const operators::Pad&) const { return true; }
  bool operator()(const operators::Reshape&) const { return true; }
  bool operator()(const operators::PixelReshape&) const { return true; }
  bool operator()(const operators::Flatten&) const { return true; }
  bool operator()(const operators::Transpose&) const { return true; }
  bool operator()(const operators::Expand&) const { return true; }
  bool operator()(const operators::Identity&) const { return true; }
  bool operator()(const operators::Map&) const { return true; }
  bool operator()(const operators::Reduce&) const { return true; }
  bool operator()(const operators::ArgReduce&) const { return true; }
  bool operator()(const operators::Slice&) const { return true; }
  bool operator()(const operators::Gather&) const { return true; }
  bool operator()(const operators::Tile&) const { return true; }
  bool operator()(const operators::ReshapeLike&) const { return true; }
  bool operator()(const operators::ShapeOf&) const { return true; }
  bool operator()(const operators::MatMul&) const { return true; }
  bool operator()(const operators::GatherElements&) const { return true; }
  bool operator()(const operators::GatherND&) const { return true; }
  bool operator()(const operators::ScatterElements&) const { return true; }
  bool operator()(const operators::ScatterND&) const { return true; }
  bool operator()(const operators::Range&) const { return true; }
  bool operator()(const operators::Triangle&) const { return true; }
  bool operator()(const operators::CumulativeSum&) const { return true; }
  bool operator()(const operators::TopK&) const { return true; }
  bool operator()(const operators::Recurrence&) const { return true; }
  bool operator()(const auto&) const { return false; }
};

}  // namespace

bool takes_empty(const OperatorKind& kind) { return std::visit(TakesEmpty{}, kind); }

}  // namespace unisono::network
