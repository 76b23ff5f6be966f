#include "ir/function_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "ir/source.hpp"

namespace unisono::ir {

namespace {

bool is_part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Comments and literals become blanks, so that places stay what they are.
std::string code_of(std::string_view text) {
  std::string code(text);
  for (std::size_t i = 0; i < code.size(); ++i) {
    const std::string_view rest = std::string_view(code).substr(i);
    std::size_t end = i;
    if (rest.starts_with("//"))
      end = std::min(code.find('\n', i), code.size());
    else if (rest.starts_with("/*"))
      end = std::min(code.find("*/", i + 2), code.size() - 2) + 2;
    else if (rest[0] == '"')
      end = std::min(code.find('"', i + 1), code.size() - 1) + 1;
    for (; i < end; ++i)
      if (code[i] != '\n') code[i] = ' ';
  }
  return code;
}

/// A type and a name, or more of the first: "const float4 x".
struct FormParameter {
  Span span;
  std::string type;  ///< without const, & and unisono::
  bool pointer = false;
};

/// One overload.
struct Declaration {
  Span span;  ///< from its result's type to its closing parenthesis
  std::string result;
  Span result_span;
  std::vector<FormParameter> parameters;
  bool defined = false;  ///< a body follows
};

struct Word {
  Span span;
  std::string_view text;
};

std::vector<Word> words_in(std::string_view code, Span within) {
  std::vector<Word> words;
  for (std::size_t i = within.offset; i < within.offset + within.length; ++i) {
    if (!is_part_of_name(code[i])) continue;
    const std::size_t begin = i;
    while (i < within.offset + within.length && is_part_of_name(code[i])) ++i;
    words.push_back({{begin, i - begin}, code.substr(begin, i - begin)});
  }
  std::erase_if(words,
                [](const Word& w) { return w.text == "const" || w.text == "unisono" || w.text == "__restrict__"; });
  return words;
}

FormParameter parameter_in(std::string_view code, Span span) {
  while (span.length > 0 && std::isspace(static_cast<unsigned char>(code[span.offset]))) ++span.offset, --span.length;
  while (span.length > 0 && std::isspace(static_cast<unsigned char>(code[span.offset + span.length - 1])))
    --span.length;
  FormParameter p{span, {}, code.substr(span.offset, span.length).find('*') != std::string_view::npos};
  const std::vector<Word> words = words_in(code, span);
  const bool two = words.size() > 1 && words[0].text == "long" && words[1].text == "long";
  p.type = words.empty() ? "" : two ? "long long" : std::string(words[0].text);
  return p;
}

/// The overload whose name stands at `at`; nothing: it is no declaration of a device function.
std::optional<Declaration> declaration_at(std::string_view code, std::size_t at, std::size_t length) {
  const std::size_t open = code.find_first_not_of(" \n\t\r", at + length);
  if (open == code.npos || code[open] != '(') return {};
  const std::size_t close = code.find(')', open), before = at == 0 ? code.npos : code.find_last_of(";}{", at - 1);
  if (close == code.npos) return {};
  const std::size_t begin = before == code.npos ? 0 : before + 1;
  const std::vector<Word> head = words_in(code, {begin, at - begin});
  if (std::ranges::none_of(head, [](const Word& w) { return w.text == "__device__"; })) return {};
  const Word& result = head.back();
  Declaration d{{result.span.offset, close + 1 - result.span.offset}, std::string(result.text), result.span, {}, false};
  const std::size_t next = code.find_first_not_of(" \n\t\r", close + 1);
  d.defined = next != code.npos && code[next] == '{';
  for (std::size_t from = open + 1; from <= close;) {
    const std::size_t end = std::min(code.find(',', from), close);
    if (FormParameter p = parameter_in(code, {from, end - from}); !p.type.empty()) d.parameters.push_back(std::move(p));
    from = end + 1;
  }
  return d;
}

std::vector<Declaration> declarations_of(std::string_view code, const std::string& name) {
  std::vector<Declaration> list;
  for (std::size_t at = code.find(name); at != code.npos; at = code.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at > 0 && is_part_of_name(code[at - 1])) || (end < code.size() && is_part_of_name(code[end]))) continue;
    if (auto d = declaration_at(code, at, name.size())) list.push_back(*std::move(d));
  }
  return list;
}

/// The number behind "float"; 0: it is no such type.
int width_of(std::string_view type) {
  if (!type.starts_with("float") || type.size() == 5 || type.size() > 7) return 0;
  int width = 0;
  for (const char c : type.substr(5)) {
    if (!std::isdigit(static_cast<unsigned char>(c))) return 0;
    width = 10 * width + (c - '0');
  }
  return width;
}

std::string_view integer_type(ParameterType t) { return t == ParameterType::int64 ? "long long" : "int"; }

class Checker {
 public:
  Checker(const UserFunction& f, const Source& source, const Declaration& d) : f_(f), source_(source), d_(d) {}

  /// The width; 0: the declaration takes no vector.
  int width() {
    const auto inputs = std::min(d_.parameters.size(), static_cast<std::size_t>(f_.arity));
    for (std::size_t i = 0; i < inputs && width_ == 0; ++i)
      if (!d_.parameters[i].pointer) width_ = width_of(d_.parameters[i].type);
    if (width_ == 0) return 0;
    if (width_ != 2 && width_ != 4 && width_ != 8)
      fail(d_.span,
           fmt::format("takes vectors of {} elements; expected 2, 4 or 8: float2, float4, unisono::float8", width_));
    check_count();
    for (std::size_t i = 0; i < static_cast<std::size_t>(f_.input_count()); ++i) check_input(i);
    for (std::size_t i = 0; i < f_.pointers.size(); ++i) {
      const FormParameter& p = d_.parameters[static_cast<std::size_t>(f_.input_count()) + i];
      if (!p.pointer)
        fail(p.span, fmt::format("takes {} where {} is captured; expected {}", p.type, f_.pointers[i].name,
                                 f_.pointers[i].type));
    }
    check_result();
    return width_;
  }

 private:
  [[noreturn]] void fail(Span span, const std::string& what) const {
    source_.fail(span, fmt::format("function {}: its vector form {}", f_.name, what));
  }

  void check_count() const {
    const auto expected = static_cast<std::size_t>(f_.input_count()) + f_.pointers.size() + (f_.results > 1 ? 1 : 0);
    if (d_.parameters.size() != expected)
      fail(d_.span, fmt::format("has {} parameters; expected {}, as the scalar form: {} inputs, {} captured scalars, "
                                "{} captured pointers{}",
                                d_.parameters.size(), expected, f_.arity, f_.scalars.size(), f_.pointers.size(),
                                f_.results > 1 ? ", and its results" : ""));
  }

  void check_input(std::size_t i) const {
    const FormParameter& p = d_.parameters[i];
    const ParameterType t = f_.parameter(i);
    const bool captured = i >= static_cast<std::size_t>(f_.arity);
    const std::string_view expected = t != ParameterType::float32 ? integer_type(t)
                                      : captured                  ? "float"
                                                                  : vector_type(width_);
    if (p.type == expected && !p.pointer) return;
    fail(p.span, fmt::format("takes {}{} as {}; expected {}{}", p.type, p.pointer ? "*" : "",
                             captured ? fmt::format("the captured scalar {}",
                                                    f_.scalars[i - static_cast<std::size_t>(f_.arity)])
                                      : fmt::format("input {}", i + 1),
                             expected, t != ParameterType::float32 ? ", the first element's" : ""));
  }

  void check_result() const {
    if (f_.results > 1) {
      const FormParameter& p = d_.parameters.back();
      if (!p.pointer || p.type != vector_type(width_))
        fail(p.span, fmt::format("takes {} for its results; expected {}*", p.type, vector_type(width_)));
    }
    const std::string_view expected = f_.returns_value && f_.results == 1 ? vector_type(width_) : "void";
    if (d_.result != expected) fail(d_.result_span, fmt::format("returns {}; expected {}", d_.result, expected));
  }

  const UserFunction& f_;
  const Source& source_;
  const Declaration& d_;
  int width_ = 0;
};

}  // namespace

std::string_view vector_type(int width) { return width == 2 ? "float2" : width == 4 ? "float4" : "float8"; }

VectorForms vector_forms(const UserFunction& f) {
  if (f.cuda_source.empty()) return 0;
  const Source source(f.cuda_source);
  const std::string code = code_of(f.cuda_source);
  VectorForms forms = 0, bodies = 0;
  bool scalar = false;
  std::optional<Span> first;
  for (const Declaration& d : declarations_of(code, f.name)) {
    const int width = Checker(f, source, d).width();
    scalar |= width == 0;
    if (width == 0) continue;
    if (d.defined && has_form(bodies, width))
      source.fail(d.span, fmt::format("function {} has a second form of {} elements", f.name, width));
    if (d.defined) bodies |= width;
    if (!first) first = d.span;
    forms |= width;
  }
  if (first && !scalar)
    source.fail(*first, fmt::format("function {} has vector forms only; expected one of a single element too, for "
                                    "what is left where rows end",
                                    f.name));
  return forms;
}

VectorForms call_forms(const Graph& graph, ValueId id) {
  const Node& call = graph[id];
  if (call.op != Op::call || call.axes != axes::mn) return 0;
  const UserFunction& f = *graph.functions.at(call.attr.name);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Node& x = graph[call.inputs[i]];
    const bool first = x.op == Op::index && x.attr.coordinate == Coordinate::n;
    if (f.parameter(i) != ParameterType::float32 && x.axes.col != ColAxis::none && !first) return 0;
  }
  return vector_forms(f);
}

VectorForms all_call_forms(const Graph& graph) {
  VectorForms forms = 0;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) forms |= call_forms(graph, id);
  return forms;
}

std::size_t alignment_of_pointer(std::string_view type) {
  std::size_t alignment = 1;
  if (std::ranges::count(type, '*') != 1) return alignment;
  for (const Word& w : words_in(type, {0, type.find('*')}))
    if (const int width = width_of(w.text); width == 2 || width == 4 || width == 8) alignment = width == 2 ? 8 : 16;
  return alignment;
}

}  // namespace unisono::ir
