#pragma once
/// The visitor of kernels/unisono/epilogue/visitor.cuh, function by function.

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "codegen/codegen.hpp"
#include "codegen/halving.hpp"
#include "codegen/names.hpp"
#include "codegen/scope.hpp"

namespace unisono::codegen {

class VisitorWriter {
 public:
  VisitorWriter(const plan::Epilogue& epilogue, const Options& options);

  /// struct Visitor { … };
  std::string text(std::string_view name = "Visitor");
  /// The fields of its Params, in order.
  const std::vector<Field>& fields() const { return fields_; }

 private:
  /// What a function has at hand besides constants.
  struct Bindings {
    std::string pixel;  ///< operands [m,n] by position in this list
    const std::vector<ValueId>* columns = nullptr;
    const std::vector<ValueId>* tensors = nullptr;
    std::string channel;  ///< operands of columns, loaded by image and this
    int groups = 0;       ///< that `channel` counts; 0: it counts columns
    std::string image = "image";
    bool in_row = false;  ///< operands [m] and coordinates are read at `at`, a Where
    bool guards = false;  ///< functions that read memory are called where `exists` alone
    std::map<ValueId, std::string> values;
  };

  std::string element_of(ValueId operand) const;
  bool lies_apart(ValueId id) const;
  void add_fields();
  std::set<Coordinate> extents_read() const;
  void add_steps();
  std::vector<std::string> captured() const;
  static std::string place(const std::string& image, const std::string& row, const std::string& pixel,
                           const std::string& column);
  std::string place_of(ValueId id) const;
  std::string place_of_store(std::size_t store) const;

  Scope scope(const Bindings& bindings, bool accurate);
  std::string given(ValueId id, const Bindings& bindings);
  std::string load_scalar(ValueId id) const;
  static std::string group_text(const Axes& a, const Bindings& bindings);
  std::string load_column(ValueId id, const Bindings& bindings) const;
  std::string coordinate(Coordinate c, const Bindings& bindings) const;
  std::string raw_as_input() const;
  static std::string accumulator(Op op, const std::vector<ValueId>& tensors);
  Bindings elements_before() const;
  Bindings elements_after(bool with_raw) const;

  std::string params() const;
  std::string uniform();
  std::string columns(const char* name, const std::vector<ValueId>& values);
  std::string tensors() const;
  std::string element(const char* head, const Bindings& bindings, ValueId value);
  ValueId stored_value(std::size_t output) const;
  std::string before();
  std::string after();
  std::string side();
  std::string rows_behind();
  std::string second_pass();
  bool row_results() const;
  std::string rows_of_results();
  std::string row_statistic() const;
  std::string late_and_affine();
  std::string statistics();
  std::string exchanged();

  void add_fold_terms(Scope& s, bool of_behind);
  std::string folds_of_passes(Scope& behind);

  /// Stored reductions, by where they are kept.
  enum class FoldList : std::uint8_t { channel, moments, tile };
  std::vector<ValueId> folds(FoldList list) const;
  Bindings element_bindings() const;
  Bindings row_bindings() const;
  std::set<ValueId> kept_in_rows() const;
  std::string group_lists() const;
  std::string groups();
  std::string column_text(std::size_t i, DType as) const;
  std::string returned();
  std::string shared_terms(std::initializer_list<const std::vector<ValueId>*> lists);
  std::string returned_list(std::size_t level);
  std::string concluded(const plan::Statistics& domain) const;
  std::string returned_columns(std::size_t level);
  bool is_effect(ValueId id) const;
  std::string rows();
  void fill_rows(Scope& s, int level);
  std::string conclusions(std::size_t level);
  std::string levels();
  void call_effects(Scope& s, bool full, const char* condition);
  std::string put_text(std::size_t output, bool pair) const;
  /// What an element's results are made of: members of Result, and how these are stored.
  struct ElementText {
    std::string members, puts, single_puts;
    std::vector<std::string> tiled;
    bool any = false;
  };
  ElementText fill_element(Scope& s, bool effects);
  std::string results();
  std::string vector_call(ValueId id, Bindings& bindings);
  std::string vectors();
  std::string fold_terms(Scope& s);
  std::string row_ends();
  std::string domains();
  std::string finish(const plan::Statistics& domain);
  std::string general_text();

  const plan::Epilogue& e_;
  const Graph& g_;
  const Options& options_;
  Names names_;
  std::vector<Field> fields_;
  std::vector<std::string> field_names_;
  std::set<ValueId> uniforms_read_;  ///< by functions other than uniform()
  Halving halving_;
  std::vector<bool> late_;     ///< computed from reductions over rows
  std::vector<int> level_of_;  ///< stages that are complete before a value
  std::vector<bool> precise_;  ///< general: elements by their accurate forms
};

}  // namespace unisono::codegen
