/// The builder of epilogue graphs: values with operators, and a function for each row of the table of operations.

#include "tensors.hpp"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// A value or a number, where an attribute or a second operand may be either.
struct ValueOrNumber {
  nb::object object;

  NumberOrValue attribute() const {
    Value* value = nullptr;
    if (nb::try_cast(object, value, false) && value) return NumberOrValue(*value);
    return NumberOrValue(number());
  }
  Value value(GraphBuilder& builder) const {
    Value* value = nullptr;
    if (nb::try_cast(object, value, false) && value) return *value;
    return builder.constant(number());
  }
  bool is_value() const { return nb::isinstance<Value>(object); }
  double number() const {
    double number = 0;
    if (!nb::try_cast(object, number, true))
      throw UserError("expected a unisono.Value or a number, and was given a " +
                      nb::cast<std::string>(nb::str(nb::type_name(object.type()))));
    return number;
  }
};

/// The builder of whichever is a value.
GraphBuilder& builder_of(const std::vector<nb::object>& objects) {
  for (const nb::object& object : objects)
    if (Value* value = nullptr; nb::try_cast(object, value, false) && value) return value->builder();
  throw UserError("none of the operands is a unisono.Value");
}

Value apply(Op op, const std::vector<nb::object>& objects) {
  GraphBuilder& builder = builder_of(objects);
  std::vector<Value> inputs;
  for (const nb::object& object : objects) inputs.push_back(ValueOrNumber{object}.value(builder));
  return builder.node(op, inputs);
}

ReduceDomain domain_of(const std::string& over, const std::optional<std::string>& per, int groups) {
  ReduceDomain domain{.groups = groups};
  if (over == "all" || over == "mn" || over == "nm") {
    domain.rows = domain.cols = true;
  } else if (over == "m") {
    domain.rows = true;
  } else if (over == "n") {
    domain.cols = true;
  } else {
    throw UserError("over='" + over + "': expected 'm', 'n', 'mn' or 'all'");
  }
  if (per && *per != "b") throw UserError("per='" + *per + "': expected 'b' or None");
  domain.per_image = per.has_value();
  return domain;
}

// Results refer to their builder, which the first argument keeps alive
using Keep = nb::keep_alive<0, 1>;

template <Op op>
void bind_operator(nb::class_<Value>& value, const char* name, const char* reflected) {
  value.def(
      name,
      [](nb::object x, nb::object y) {
        return apply(op, {x, y});
      },
      "other"_a, Keep());
  if (reflected)
    value.def(
        reflected,
        [](nb::object x, nb::object y) {
          return apply(op, {y, x});
        },
        "other"_a, Keep());
}

void bind_value(nb::module_& m) {
  nb::class_<Value> value(m, "Value",
                          "A value of a graph under construction. Its operators return new values; a number is a "
                          "constant.");
  value.def_prop_ro("dtype", &Value::dtype, "The compute dtype.")
      .def_prop_ro(
          "axes", [](const Value& x) { return text_of(x.axes()); }, "'mn', 'n', 'bn', 'm', 'b', '', …")
      .def("named", &Value::named, "name"_a, Keep(), "Names the value in printed graphs, and returns it.")
      .def(
          "__neg__", [](const Value& x) { return -x; }, Keep())
      .def(
          "__invert__", [](const Value& x) { return logical_not(x); }, Keep())
      .def(
          "__abs__", [](const Value& x) { return abs(x); }, Keep())
      .def("__bool__", [](const Value&) -> bool {
        throw UserError(
            "a value of an epilogue has no truth value: it differs from element to element. Use "
            "unisono.select(condition, x, y) in place of if, and & | ~ in place of and, or, not");
      });
  bind_operator<Op::add>(value, "__add__", "__radd__");
  bind_operator<Op::sub>(value, "__sub__", "__rsub__");
  bind_operator<Op::mul>(value, "__mul__", "__rmul__");
  bind_operator<Op::div>(value, "__truediv__", "__rtruediv__");
  bind_operator<Op::pow>(value, "__pow__", "__rpow__");
  bind_operator<Op::less>(value, "__lt__", nullptr);
  bind_operator<Op::less_equal>(value, "__le__", nullptr);
  bind_operator<Op::greater>(value, "__gt__", nullptr);
  bind_operator<Op::greater_equal>(value, "__ge__", nullptr);
  bind_operator<Op::equal>(value, "__eq__", nullptr);
  bind_operator<Op::not_equal>(value, "__ne__", nullptr);
  bind_operator<Op::logical_and>(value, "__and__", nullptr);
  bind_operator<Op::logical_or>(value, "__or__", nullptr);
}

template <Op op>
void bind_binary(nb::module_& m, const char* name) {
  m.def(
      name,
      [](nb::object x, nb::object y) {
        return apply(op, {x, y});
      },
      "x"_a, "y"_a, Keep(), nb::keep_alive<0, 2>());
}

void bind_functions(nb::module_& m) {
#define UNISONO_FUNCTION(NAME, ...) \
  m.def(                            \
      #NAME, [](const Value& x) { return unisono::NAME(x); }, "x"_a, Keep());
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...)                                                         \
  m.def(                                                                                                             \
      #NAME, [](const Value& x, nb::object p) { return unisono::NAME(x, ValueOrNumber{std::move(p)}.attribute()); }, \
      "x"_a, nb::arg(#P) = static_cast<double>(P_DEFAULT), Keep());
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...)                                \
  m.def(                                                                                                           \
      #NAME,                                                                                                       \
      [](const Value& x, nb::object p, nb::object q) {                                                             \
        return unisono::NAME(x, ValueOrNumber{std::move(p)}.attribute(), ValueOrNumber{std::move(q)}.attribute()); \
      },                                                                                                           \
      "x"_a, nb::arg(#P) = static_cast<double>(P_DEFAULT), nb::arg(#Q) = static_cast<double>(Q_DEFAULT), Keep());
#include "unisono/operations.def"
  bind_binary<Op::pow>(m, "pow");
  m.def(
      "fma",
      [](nb::object x, nb::object y, nb::object z) {
        return apply(Op::fma, {x, y, z});
      },
      "x"_a, "y"_a, "z"_a, Keep(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), "x·y + z");
  m.def(
      "select",
      [](nb::object c, nb::object x, nb::object y) {
        return apply(Op::select, {c, x, y});
      },
      "condition"_a, "x"_a, "y"_a, Keep(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(),
      "x where the condition is true, else y.");
  m.def(
      "one_hot", [](const Value& x) { return one_hot(x); }, "label"_a, Keep(),
      "1 where the column equals the label, else 0.");
  m.def(
      "cast", [](const Value& x, DType t) { return cast(x, t); }, "x"_a, "dtype"_a, Keep(),
      "x rounded to dtype, which is also the compute dtype of what reads it.");
}

template <class F>
void bind_reduction(nb::module_& m, const char* name, F reduce) {
  m.def(
      name,
      [reduce](const Value& x, const std::string& over, const std::optional<std::string>& per, int groups) {
        return reduce(x, domain_of(over, per, groups));
      },
      "x"_a, "over"_a = "all", "per"_a = nb::none(), "groups"_a = 1, Keep(),
      "over: 'm' (rows), 'n' (columns) or 'all'. per='b': one result per image. groups: one result per group of "
      "columns.");
}

/// max(x, y) of two values, and max(x, over='m'), as in the text form.
template <class F>
void bind_extreme(nb::module_& m, const char* name, Op op, F reduce) {
  m.def(
      name,
      [op, reduce](nb::object x, nb::object y, const std::string& over, const std::optional<std::string>& per,
                   int groups) -> Value {
        if (!y.is_none()) return apply(op, {x, y});
        return reduce(nb::cast<Value&>(x), domain_of(over, per, groups));
      },
      "x"_a, "y"_a = nb::none(), nb::kw_only(), "over"_a = "all", "per"_a = nb::none(), "groups"_a = 1, Keep(),
      nb::keep_alive<0, 2>(), "Two values: elementwise. One value: a reduction, with the arguments of sum().");
}

NormOptions norm_options(int groups, const nb::object& scale, const nb::object& shift, double eps, const Value& x) {
  NormOptions options{.groups = groups, .eps = eps};
  if (!scale.is_none()) options.scale = ValueOrNumber{scale}.value(x.builder());
  if (!shift.is_none()) options.shift = ValueOrNumber{shift}.value(x.builder());
  return options;
}

template <class F>
void bind_norm(nb::module_& m, const char* name, F norm, const char* doc) {
  m.def(
      name,
      [norm](const Value& x, nb::object scale, nb::object shift, double eps) {
        return norm(x, norm_options(1, scale, shift, eps, x));
      },
      "x"_a, nb::kw_only(), "scale"_a = nb::none(), "shift"_a = nb::none(), "eps"_a = 1e-5, Keep(), doc);
}

void bind_reductions(nb::module_& m) {
  bind_reduction(m, "sum", [](Value x, ReduceDomain d) { return sum(x, d); });
  bind_reduction(m, "mean", [](Value x, ReduceDomain d) { return mean(x, d); });
  bind_reduction(m, "sum_squares", [](Value x, ReduceDomain d) { return sum_squares(x, d); });
  bind_reduction(m, "variance", [](Value x, ReduceDomain d) { return variance(x, d); });
  bind_extreme(m, "max", Op::max, [](Value x, ReduceDomain d) { return reduce_max(x, d); });
  bind_extreme(m, "min", Op::min, [](Value x, ReduceDomain d) { return reduce_min(x, d); });
  m.def(
      "softmax",
      [](const Value& x, const std::string& over, const std::optional<std::string>& per, int groups) {
        return softmax(x, domain_of(over, per, groups));
      },
      "x"_a, "over"_a = "n", "per"_a = nb::none(), "groups"_a = 1, Keep(), "exp(x − max)/Σ exp(x − max)");
  m.def(
      "group_norm",
      [](const Value& x, int groups, nb::object scale, nb::object shift, double eps) {
        return group_norm(x, norm_options(groups, scale, shift, eps, x));
      },
      "x"_a, "groups"_a, nb::kw_only(), "scale"_a = nb::none(), "shift"_a = nb::none(), "eps"_a = 1e-5, Keep(),
      "(x − mean)/√(variance + eps)·scale + shift, with statistics per image and group of channels.");
  bind_norm(
      m, "instance_norm", [](Value x, NormOptions o) { return instance_norm(x, o); },
      "The formula of group_norm() with statistics per image and channel.");
  bind_norm(
      m, "layer_norm", [](Value x, NormOptions o) { return layer_norm(x, o); },
      "The formula of group_norm() with statistics per row.");
  bind_norm(
      m, "batch_norm", [](Value x, NormOptions o) { return batch_norm(x, o); },
      "The formula of group_norm() with statistics per channel over the whole batch, as in training.");
  m.def(
      "rms_norm",
      [](const Value& x, nb::object scale, double eps) {
        return rms_norm(x, norm_options(1, scale, nb::none(), eps, x));
      },
      "x"_a, nb::kw_only(), "scale"_a = nb::none(), "eps"_a = 1e-5, Keep(),
      "x/√(mean(x²) + eps)·scale, with the mean per row.");
}

Coordinate coordinate_of(const std::string& name) {
  static const std::map<std::string, Coordinate> known = {
      {"m", Coordinate::m}, {"n", Coordinate::n}, {"b", Coordinate::b}, {"h", Coordinate::h}, {"w", Coordinate::w}};
  const auto found = known.find(name);
  if (found == known.end()) throw UserError("coordinate '" + name + "': expected 'm', 'n', 'b', 'h' or 'w'");
  return found->second;
}

void store(GraphBuilder& builder, const Value& value, std::optional<DType> dtype, const std::string& name,
           const std::string& form) {
  const DType rounded = dtype.value_or(value.dtype());
  if (form.empty()) {
    builder.store(value, rounded, name);
  } else if (form == "max_pool_2x2") {
    builder.store(max_pool_2x2(value), rounded, name);
  } else if (form == "upsample_2x2") {
    builder.store(upsample_2x2(value), rounded, name);
  } else {
    throw UserError("form '" + form + "': expected '', 'max_pool_2x2' or 'upsample_2x2'");
  }
}

}  // namespace

void bind_builder(nb::module_& m) {
  bind_value(m);
  bind_functions(m);
  bind_reductions(m);
  nb::class_<GraphBuilder>(m, "GraphBuilder", "Builds an epilogue graph. An invalid call raises UserError immediately.")
      .def(nb::init<>())
      .def("acc", nb::overload_cast<>(&GraphBuilder::acc), Keep(), "The accumulator of the contraction, f32, [m,n].")
      .def(
          "operand",
          [](GraphBuilder& g, const std::string& name, const std::string& axes, std::optional<DType> dtype,
             std::optional<double> default_value) {
            return g.operand(name, axes_of(axes), {dtype, default_value});
          },
          "name"_a, "axes"_a = "", nb::kw_only(), "dtype"_a = nb::none(), "default"_a = nb::none(), Keep(),
          "An operand that the caller binds by this name. axes: '', 'b', 'm', 'n', 'bn', 'mn', or for 4 groups of "
          "columns "
          "'g4' or 'bg4'. dtype: in memory (None: that of the bound tensor). default: of a scalar.")
      .def("constant", &GraphBuilder::constant, "value"_a, Keep())
      .def(
          "index", [](GraphBuilder& g, const std::string& c) { return g.index(coordinate_of(c)); }, "coordinate"_a,
          Keep(), "The element's position along 'm', 'n', 'b', 'h' or 'w', i32.")
      .def(
          "extent", [](GraphBuilder& g, const std::string& c) { return g.extent(coordinate_of(c)); }, "coordinate"_a,
          Keep(), "The extent of a coordinate, i32.")
      .def("store", &store, "value"_a, "dtype"_a = nb::none(), "name"_a = "", nb::kw_only(), "form"_a = "",
           "Adds an output, rounded to dtype (None: the dtype of the value). form: '', 'max_pool_2x2' or "
           "'upsample_2x2'.")
      .def("build", &GraphBuilder::build, "Verifies and returns the graph. Raises UserError if it has no store.");
}

}  // namespace unisono::python
