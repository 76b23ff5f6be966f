#include "families/cutlass_evt/self_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "codegen/expression.hpp"
#include "families/cutlass_evt/self_check_helpers.hpp"
#include "families/cutlass_evt/tree_text.hpp"
#include "unisono/error.hpp"

namespace unisono::families::cutlass_evt {
namespace {

bool is_reduction(VisitorKind kind) { return kind >= VisitorKind::scalar_reduction; }
bool is_result(VisitorKind kind) { return kind == VisitorKind::aux_store || is_reduction(kind); }

std::string scalar_text(const Scalar& s) {
  switch (s.kind) {
    case Scalar::Kind::constant: return codegen::literal(s.constant, DType::f32);
    case Scalar::Kind::value: return fmt::format("number(p, {})", s.field);
    case Scalar::Kind::pointer: return fmt::format("address<const float>(p, {})[{}]", s.field, s.per_batch ? "l" : "0");
    case Scalar::Kind::inverse_rows: return fmt::format("float(1.0 / double({}))", s.per_batch ? "m" : "m * batch");
    case Scalar::Kind::inverse_columns: return "float(1.0 / double(n))";
    case Scalar::Kind::inverse_all: return fmt::format("float(1.0 / double({} * n))", s.per_batch ? "m" : "m * batch");
  }
  throw InternalError("a scalar of an unknown kind");
}

std::string loaded(const Visitor& v, const char* at) {
  return fmt::format("float(address<const {}>(p, {})[{}])", element_name(v.element), v.field, at);
}

// What one thread computes for one element
std::string value_text(const Visitor& v) {
  switch (v.kind) {
    case VisitorKind::accumulator: return "float(sum)";
    case VisitorKind::accumulator1: return "float(sum1)";
    case VisitorKind::source:
    case VisitorKind::aux_load: return loaded(v, "i");
    case VisitorKind::row: return loaded(v, v.per_batch ? "l * n + column" : "column");
    case VisitorKind::column: return loaded(v, "l * m + row");
    case VisitorKind::scalar: {
      std::vector<std::string> factors;
      for (const Scalar& s : v.scalars) factors.push_back(scalar_text(s));
      return fmt::format("{}", fmt::join(factors, " * "));
    }
    case VisitorKind::compute: {
      std::vector<std::string> arguments;
      for (const int in : v.inputs) arguments.push_back(fmt::format("one(v{})", in));
      if (!v.functor->arguments.empty())
        arguments.push_back(fmt::format("typename {}<float>::Arguments{{{}}}", v.functor->name, v.functor->arguments));
      return fmt::format("float({}({}<One>{{}}({})[0]))", element_name(v.element), v.functor->name,
                         fmt::join(arguments, ", "));
    }
    default: return fmt::format("v{}", v.inputs[0]);  // passes it on
  }
}

// All results: the visitors that have one, then D
std::vector<int> results_of(const Visitors& v) {
  std::vector<int> results;
  for (int at = 0; at < static_cast<int>(v.list.size()); ++at)
    if (is_result(v.list[at].kind)) results.push_back(at);
  return results;
}

// Where a tap reads, and its filter's channels of x, which are `apart` elements apart
constexpr const char* of_convolution =
    "            const long long at_h = y * o.stride_h + r * o.dilation_h - o.pad_top;\n"
    "            const long long at_w = q * o.stride_w + s * o.dilation_w - o.pad_left;\n"
    "            const long long filter = ((column * o.r + r) * o.s + s) * k, apart = 1;\n";
constexpr const char* of_transpose =
    "            const long long at_h = y + o.pad_top - r * o.dilation_h, at_w = q + o.pad_left - s * o.dilation_w;\n"
    "            const long long filter = (r * o.s + s) * n + column, apart = n * o.r * o.s;\n";
constexpr const char* convolution_sum =
    "    const CutlassEvtWindow& o = p.window;\n"
    "    const long long q = row % o.q, y = row / o.q % o.p, image = row / o.q / o.p;\n"
    "    for (long long r = 0; r < o.r; ++r)\n"
    "        for (long long s = 0; s < o.s; ++s) {{\n"
    "{}"
    "            if (at_h < 0 || at_h >= o.h || at_w < 0 || at_w >= o.w) continue;\n"
    "            const ElementA* x = static_cast<const ElementA*>(p.to.a) + ((image * o.h + at_h) * o.w + at_w) * "
    "p.to.pitch_a;\n"
    "            const ElementB* w = static_cast<const ElementB*>(p.to.b) + filter;\n"
    "            for (long long d = 0; d < k; ++d) sum += double(float(x[d])) * double(float(w[d * apart]));\n"
    "        }}\n";

// That of a gradient of filters: A is dY, B the image
constexpr const char* gradient_sum =
    "    const CutlassEvtWindow& o = p.window;\n"
    "    const long long c = column % k, s = column / k % o.s, r = column / k / o.s;\n"
    "    for (long long pixel = 0; pixel < (long long)o.images * o.p * o.q; ++pixel) {\n"
    "        const long long q = pixel % o.q, y = pixel / o.q % o.p, image = pixel / o.q / o.p;\n"
    "        const long long at_h = y * o.stride_h + r * o.dilation_h - o.pad_top;\n"
    "        const long long at_w = q * o.stride_w + s * o.dilation_w - o.pad_left;\n"
    "        if (at_h < 0 || at_h >= o.h || at_w < 0 || at_w >= o.w) continue;\n"
    "        sum += double(float(static_cast<const ElementA*>(p.to.a)[pixel * m + row])) *\n"
    "               double(float(static_cast<const ElementB*>(p.to.b)[((image * o.h + at_h) * o.w + at_w) * k + c]));\n"
    "    }\n";

// The sum that one element takes
std::string sum_text(const Config& c) {
  if (c.gradient) return gradient_sum;
  if (c.convolution) return fmt::format(convolution_sum, c.transposed ? of_transpose : of_convolution);
  const auto of = [&](const char* sum, const char* b) {
    return fmt::format(
        "    for (long long d = 0; d < k; ++d)\n"
        "        {} += double(float(static_cast<const ElementA*>(p.to.a)[l * p.to.step_a + {}])) *\n"
        "               double(float(static_cast<const ElementB*>({})[{} * p.to.step_b + {}]));\n",
        sum, c.columns_a ? "d * p.to.pitch_a + row" : "row * p.to.pitch_a + d", b, c.grouped ? "group" : "l",
        c.columns_b ? "d * p.to.pitch_b + column" : "column * p.to.pitch_b + d");
  };
  const char* group = c.grouped ? "    long long group = 0, end = p.groups.rows[0];\n"
                                  "    while (row >= end) end += p.groups.rows[++group];\n"
                                : "";
  return group + of("sum", "p.to.b") + (c.products == 2 ? "    double sum1 = 0;\n" + of("sum1", "p.second.b") : "");
}

std::string kernel_text(const Visitors& v, const Config& c) {
  std::string text =
      "using One = cutlass::Array<float, 1>;\n"
      "inline __device__ One one(float x) {\n"
      "    One y;\n"
      "    y[0] = x;\n"
      "    return y;\n"
      "}\n\n"
      "// Each element by itself: what reaches result r stands at expected[r * elements + i], D last\n"
      "__global__ void compute_elements(Parameter p, float* expected) {\n"
      "    const long long m = p.to.m, n = p.to.n, k = p.to.k, batch = p.to.batch, elements = batch * m * n;\n"
      "    const long long i = blockIdx.x * 256ll + threadIdx.x;\n"
      "    if (i >= elements) return;\n"
      "    const long long column = i % n, row = i / n % m, l = i / n / m;\n"
      "    double sum = 0;\n";
  text += sum_text(c);
  for (std::size_t at = 0; at < v.list.size(); ++at)
    text += fmt::format("    const float v{} = {};  // {}\n", at, value_text(v.list[at]), label_of(v.list[at]));
  const std::vector<int> results = results_of(v);
  for (std::size_t r = 0; r < results.size(); ++r)
    text += fmt::format("    expected[{} * elements + i] = v{};\n", r, v.list[results[r]].inputs[0]);
  text += fmt::format("    expected[{} * elements + i] = v{};\n}}\n\n", results.size(), v.list.size() - 1);
  return text;
}

std::string extent_of(const codegen::Field& f) {
  std::vector<std::string> factors;
  if (f.axes.row == RowAxis::m) factors.emplace_back("p.to.batch * p.to.m");
  if (f.axes.row == RowAxis::b) factors.emplace_back("p.to.batch");
  if (f.axes.col == ColAxis::n) factors.emplace_back("p.to.n");
  return factors.empty() ? "1" : fmt::format("{}", fmt::join(factors, " * "));
}

// `number`: of a scalar operand that is a number in the parameter
std::string field_text(const codegen::Field& f, std::size_t at, double number) {
  switch (f.kind) {
    case codegen::Field::Kind::operand_value:
      return fmt::format(
          "    const float value{0} = {2};\n"
          "    std::memcpy(&p.fields[{0}], &value{0}, sizeof value{0});  // {1}\n",
          at, f.name, codegen::literal(number, DType::f32));
    case codegen::Field::Kind::operand_pointer:
      return fmt::format("    p.fields[{}] = reinterpret_cast<unsigned long long>(filled<{}>({}));  // {}\n", at,
                         element_name(f.dtype), extent_of(f), f.name);
    default:
      return fmt::format("    p.fields[{}] = reinterpret_cast<unsigned long long>(poisoned<{}>({}));  // {}\n", at,
                         element_name(f.dtype), extent_of(f), f.name);
  }
}

std::string place_text(const Visitor& result) {
  return result.kind == VisitorKind::aux_store
             ? result_address(result.place, element_name(result.element), result.field)
             : fmt::format("address<{}>(p, {})", element_name(result.element), result.field);
}

const char* fold_of(Op op) {
  return op == Op::reduce_max ? "Fold::max" : op == Op::reduce_min ? "Fold::min" : "Fold::sum";
}

std::string comparison(const Visitor& r, std::size_t number) {
  if (r.kind == VisitorKind::aux_store)
    return fmt::format("    ok &= same_elements({}, expected + {} * elements, elements, \"{}\");\n", place_text(r),
                       number, r.name);
  const bool rows = r.kind != VisitorKind::column_reduction, columns = r.kind != VisitorKind::row_reduction;
  return fmt::format("    ok &= same_folds({}, expected + {} * elements, p.to, {}, {}, {}, {}, \"{}\");\n",
                     place_text(r), number, rows, columns, r.per_batch, fold_of(r.reduction), r.name);
}

// Sizes, and A and B
std::string problem_text(const Config& c, const plan::ConvTask& task, std::size_t workspace) {
  const Extents e = extents(task.contraction());
  const std::int64_t batch = task.batched ? e.images : 1, m = task.batched ? e.rows_per_image() : e.rows();
  const std::int64_t n = e.cols, k = task.conv.c;
  const Conv2d& conv = task.conv;
  const std::int64_t image = conv.n * conv.h * conv.w * k;
  const std::int64_t filters = c.grouped ? static_cast<std::int64_t>(task.group_rows.size()) : batch;
  const std::int64_t elements_a = c.gradient ? depth(task.contraction()) * m : c.convolution ? image : batch * m * k;
  const std::int64_t elements_b = c.gradient ? image : n * k * (c.convolution ? conv.r * conv.s : filters);
  std::string text = fmt::format(
      "}}  // namespace unisono::evt\n\n"
      "int main() {{\n"
      "    using namespace unisono::evt;\n"
      "    Parameter p{{}};\n"
      "    p.to.m = {}, p.to.n = {}, p.to.k = {}, p.to.batch = {};\n"
      "    p.to.pitch_a = {}, p.to.pitch_b = {}, p.to.pitch_d = {}, p.to.step_a = {}, p.to.step_b = {};\n"
      "    int sms = 0;\n"
      "    succeed(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), \"asking for the SMs\");\n"
      "    p.to.sms = sms, p.to.workspace_bytes = {};\n"
      "    const long long elements = p.to.batch * p.to.m * p.to.n;\n"
      "    p.to.a = filled<ElementA>({}), p.to.b = filled<ElementB>({});\n",
      m, n, k, batch, c.columns_a ? m : k, c.columns_b ? n : k, n, m * k, n * k, workspace, elements_a, elements_b);
  for (const std::int64_t rows : task.group_rows)
    text += fmt::format("    p.groups.rows[p.groups.count++] = {};\n", rows);
  if (c.products == 2) text += fmt::format("    p.second.b = filled<ElementB>({});\n", elements_b);
  const Extents pixels = c.gradient ? extents(conv) : e;
  if (c.convolution)
    text += fmt::format("    p.window = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, 0}};\n", conv.n,
                        conv.h, conv.w, pixels.height, pixels.width, conv.r, conv.s, conv.stride.h, conv.stride.w,
                        conv.pad.top, conv.pad.left, conv.pad.bottom, conv.pad.right, conv.dilation.h, conv.dilation.w);
  return text;
}

std::string main_text(const Visitors& v, const Config& c, const plan::ConvTask& task, std::size_t workspace) {
  std::string text = problem_text(c, task, workspace);
  const auto store = [&](Place place, DType t) {
    if (place != Place::field)
      text +=
          fmt::format("    p.to.{} = poisoned<{}>(elements);\n", place == Place::main ? "d" : "side", element_name(t));
  };
  store(v.store_place, v.element_d);
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::aux_store) store(each.place, each.element);
  double number = 0.25;  // each another one, the first of two limits the lower
  for (std::size_t at = 0; at < v.fields.size(); ++at) {
    text += field_text(v.fields[at], at, number);
    if (v.fields[at].kind == codegen::Field::Kind::operand_value) number += 1.25;
  }
  const std::vector<int> results = results_of(v);
  text += fmt::format(
      "    if (p.to.workspace_bytes > 0)\n"
      "        succeed(cudaMalloc(&p.to.workspace, std::size_t(p.to.workspace_bytes)), \"cudaMalloc\");\n"
      "    float* memory = poisoned<float>({0} * elements);\n"
      "    compute_elements<<<unsigned((elements + 255) / 256), 256>>>(p, memory);\n"
      "    succeed(cudaDeviceSynchronize(), \"computing each element\");\n"
      "    if (const int status = unisono_evt_run(&p, nullptr)) {{\n"
      "        std::fprintf(stderr, \"unisono_evt_run: %s\\n\", unisono_evt_text(status));\n"
      "        return 2;\n"
      "    }}\n"
      "    succeed(cudaDeviceSynchronize(), \"the kernel\");\n"
      "    const std::vector<float> all = downloaded(memory, {0} * elements);\n"
      "    const float* expected = all.data();\n"
      "    bool ok = true;\n",
      results.size() + 1);
  for (std::size_t r = 0; r < results.size(); ++r) text += comparison(v.list[results[r]], r);
  text += fmt::format("    ok &= same_elements({}, expected + {} * elements, elements, \"D\");\n",
                      result_address(v.store_place, "ElementD", v.store_field), results.size());
  return text + "    std::printf(\"%s\\n\", ok ? \"ok\" : \"WRONG\");\n    return ok ? 0 : 1;\n}\n";
}

// Sums in f32 of k products, of values on their way rounded to 16 bits, and of tf32's shorter factors
std::string slack_text(const Visitors& v, const Config& c) {
  double slack = 0x1p-14;
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::compute && each.element != DType::f32) slack = 0x1p-6;
  if (c.a == DType::tf32) slack += 0x1p-8;
  return fmt::format("constexpr double kSlack = {};\n\n", slack);
}

}  // namespace

std::string self_check(const Visitors& v, const Config& c, const plan::ConvTask& task, std::size_t workspace) {
  std::string head(self_check_helpers());
  const std::string opening = "namespace unisono::evt {\n\n";
  const std::size_t at = head.find(opening) + opening.size();
  head.insert(at, slack_text(v, c));
  return "\n// ---- A program that runs it once and checks every element\n\n" + head + kernel_text(v, c) +
         main_text(v, c, task, workspace);
}

}  // namespace unisono::families::cutlass_evt
