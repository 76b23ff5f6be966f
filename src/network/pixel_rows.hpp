#pragma once
/// Values of rank 4 whose elements are needed in the order of their axes, in memory of another rank (internal).

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "network/regions.hpp"

namespace unisono::network {

/// Whether the operator can read a tensor of rank 4 in the order of its axes.
bool works_in_order(const OperatorKind& kind);

class PixelRows {
 public:
  explicit PixelRows(const Network& network);

  Network run();

 private:
  // How the elements of a tensor of rank 4 follow those of the rows: in the order of its axes, or pixel by pixel
  enum class Order : std::uint8_t { axes, pixels };
  // A tensor of another rank than 4 with the same elements, which lie in memory in the order of its axes
  struct Rows {
    TensorId tensor;
    Order order;
  };

  bool rewrite(const Operator& op);
  bool permute(const Operator& op, const operators::Transpose& t);
  bool reshape(const Operator& op);
  bool elementwise(const Operator& op);
  void keep(Operator op);

  bool is_known(TensorId id) const;
  Shape row_shape(TensorId id, Order order) const;
  TensorId add(const NetworkTensor& like, Shape shape, std::string_view suffix);
  void emit_reshape(TensorId from, TensorId to, bool pixels);
  void write(TensorId id);
  TensorId matrix(TensorId id);
  TensorId pixels_of_image(TensorId id);
  void become(TensorId id, Rows rows) { same_[id] = rows, pending_[id] = true; }
  std::optional<Order> order_of(const Operator& op) const;
  std::optional<TensorId> row_operand(TensorId id, const Shape& space, Order order, bool make);

  bool attention(const Operator& op);
  bool batches(const Operator& op);
  bool is_in_order(TensorId id) const;
  TensorId in_order(TensorId id);

  const Network& in_;
  Network out_;
  std::vector<std::optional<Rows>> same_;  // by tensor of in_
  std::vector<bool> pending_;              // by tensor of in_: no operator of out_ has written it yet
  std::vector<bool> leaves_order_;         // by tensor of in_: an output, or read in another order
};

}  // namespace unisono::network
