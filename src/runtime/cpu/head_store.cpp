#include "runtime/cpu/head_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/batch_view.hpp"
#include "ir/store_forms.hpp"
#include "runtime/common/names.hpp"
#include "runtime/common/views.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "runtime/cpu/made_output.hpp"
#include "runtime/cpu/scratch.hpp"
#include "support/fork.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

// For the operands that the head reads, and without what concerns the main contraction
CompileOptions options_of_head(const CompileOptions& given, std::span<const std::string> operands) {
  CompileOptions own = runtime::restricted(given, operands);
  own.constant_filter.reset(), own.on_pass = {};
  return own;
}

class HeadExecutable final : public ExecutableImpl {
 public:
  HeadExecutable(std::shared_ptr<const ExecutableImpl> others, const Contraction& contraction, const Graph& graph,
                 const Store& source, const Store& result, const CompileOptions& options)
      : others_(std::move(others)),
        main_(contraction),
        contraction_(ir::head_contraction(contraction, result.head->channels, source.dtype)),
        source_(source),
        result_(result),
        stores_(graph.stores),
        operands_(runtime::operand_names(graph)),
        own_operands_(runtime::operand_names(result.head->graph)),
        kernel_(compile_region(contraction_, extents(contraction_), result.head->graph,
                               options_of_head(options, own_operands_))) {}

  // Both contractions check their arguments before either writes anything
  void run(const Arguments& arguments) const override {
    runtime::check_names(arguments, operands_, stores_);
    const Arguments own = own_arguments(arguments);
    const auto lease = ScratchPool::shared().borrow(kernel_->scratch_bytes());
    const auto bound = kernel_->bind_region(own, lease.data());
    others_->run(others_arguments(arguments));
    const support::NoFork no_fork;
    bound->run();
  }

  std::string describe() const override {
    std::string text = others_->describe();
    if (!text.empty() && text.back() != '\n') text += '\n';
    return text + fmt::format("  store {}: head of {}, {}, behind the last tile\n", result_.name, source_.name,
                              to_string(contraction_));
  }

 private:
  // The store, the head's filter, and what follows
  Arguments own_arguments(const Arguments& all) const {
    const Head& head = *result_.head;
    const auto shape = shape_mn(contraction_);
    checked_made_output(result_.name, fmt::format("output {} (head)", result_.name), shape, result_.dtype, all);
    Arguments own;
    own.a(contraction_) = source_view(all);
    own.b(contraction_) = filter_view(all);
    for (const std::string& name : own_operands_) {
      if (const auto x = all.operands.find(name); x != all.operands.end()) own.operands.insert(*x);
      if (const auto x = all.scalars.find(name); x != all.scalars.end()) own.scalars.insert(*x);
    }
    TensorView to = all.outputs.at(result_.name);
    const ConstTensorView lifted = ir::in_batch(to, shape);
    to.shape = lifted.shape, to.strides = lifted.strides;
    own.outputs[head.graph.stores[0].name] = to;
    return own;
  }

  ConstTensorView source_view(const Arguments& all) const {
    const std::string what = fmt::format("output {}[m,n]", source_.name);
    const auto shape = shape_mn(main_);
    const auto given = all.outputs.find(source_.name);
    if (given == all.outputs.end())
      throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::outputs", what,
                                  runtime::shape_string(shape), to_string(source_.dtype)));
    const ConstTensorView view = ir::in_batch(given->second, shape);
    const DType dtypes[] = {source_.dtype};
    runtime::checked_strides(view, shape, dtypes, what);
    return view;
  }

  ConstTensorView filter_view(const Arguments& all) const {
    const std::string& name = result_.head->filter;
    const std::string what = fmt::format("filter {} (of the head {})", name, result_.name);
    const auto shape = shape_b(contraction_);
    const auto given = all.operands.find(name);
    if (given == all.operands.end())
      throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::operands{}",
                                  what, runtime::shape_string(shape), to_string(source_.dtype),
                                  runtime::bound_near(name, all)));
    const ConstTensorView view = ir::in_batch(given->second, shape);
    std::vector<DType> dtypes{source_.dtype};
    if (size_of(source_.dtype) == 4) dtypes = {DType::f32, DType::tf32};  // stored alike
    runtime::checked_strides(view, shape, dtypes, what);
    return view;
  }

  Arguments others_arguments(Arguments all) const {
    all.outputs.erase(result_.name);
    all.operands.erase(result_.head->filter);
    for (const std::string& name : own_operands_) all.operands.erase(name), all.scalars.erase(name);
    return all;
  }

  std::shared_ptr<const ExecutableImpl> others_;
  Contraction main_, contraction_;
  Store source_, result_;
  std::vector<Store> stores_;
  std::vector<std::string> operands_, own_operands_;
  std::shared_ptr<const RegionKernel> kernel_;
};

}  // namespace

std::shared_ptr<const ExecutableImpl> with_head_store(std::shared_ptr<const ExecutableImpl> others,
                                                      const Contraction& contraction, const Graph& source,
                                                      const CompileOptions& options) {
  const auto head = std::ranges::find(source.stores, StoreForm::head, &Store::form);
  if (head == source.stores.end()) return others;
  const Store& from = ir::head_source(source, *head);
  return std::make_shared<HeadExecutable>(std::move(others), contraction, source, from, *head, options);
}

}  // namespace unisono::cpu
