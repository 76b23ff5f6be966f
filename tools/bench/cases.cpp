#include "bench/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <set>
#include <sstream>

#include "ir/check_graph.hpp"
#include "plan/as_convolution.hpp"
#include "reference/reference.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"
#include "unisono/tensor.hpp"
#include "unisono/text.hpp"

namespace unisono::bench {

namespace {

/// One line of a file, for messages.
struct FileLine {
  const std::string& where;
  int line;
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}:{}: {}", where, line, what));
  }
};

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

std::int64_t number(std::string_view text, std::string_view what, std::int64_t least, const FileLine& place) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size() || value < least)
    place.fail(fmt::format("{} is '{}'; expected a whole number of at least {}", what, text, least));
  return value;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(by, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// "4096,4096,1024": M,N,K
Gemm parse_product(const std::vector<std::string_view>& parts, const FileLine& place) {
  return {.m = number(parts[0], "M", 1, place),
          .n = number(parts[1], "N", 1, place),
          .k = number(parts[2], "K", 1, place),
          .transpose_b = true};
}

// "8,64,64,320,320,3" or "8,64,64,320,320,3x1"
Conv2d parse_convolution(const std::vector<std::string_view>& parts, const FileLine& place) {
  static constexpr std::array names{"N", "H", "W", "C", "K"};
  std::array<std::int64_t, 5> x{};
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(parts[i], names[i], 1, place);
  Conv2d conv{.n = x[0], .h = x[1], .w = x[2], .c = x[3], .k = x[4]};
  const auto filter = split(parts[5], 'x');
  if (filter.size() > 2) place.fail(fmt::format("the filter is '{}'; expected R or RxS, such as 3 or 3x1", parts[5]));
  conv.r = number(filter.front(), "R", 1, place);
  conv.s = number(filter.back(), "S", 1, place);
  return conv;
}

void parse_shape(Case& c, const FileLine& place) {
  const auto parts = split(c.shape, ',');
  if (parts.size() == 3)
    c.product = parse_product(parts, place);
  else if (parts.size() == 6)
    c.conv = parse_convolution(parts, place);
  else
    place.fail(fmt::format(
        "the shape '{}' has {} parts; expected N,H,W,C,K,R such as 8,64,64,320,320,3, or of a product M,N,K", c.shape,
        parts.size()));
}

Layout layout_of(std::string_view text, const FileLine& place) {
  if (text != "nhwc" && text != "nchw") place.fail(fmt::format("layout={}: expected nhwc or nchw", text));
  return text == "nhwc" ? Layout::nhwc : Layout::nchw;
}

DType dtype_of(std::string_view text, const FileLine& place) {
  if (text != "bf16" && text != "f16" && text != "f32")
    place.fail(fmt::format("dtype={}: expected bf16, f16 or f32", text));
  return text == "bf16" ? DType::bf16 : text == "f16" ? DType::f16 : DType::f32;
}

// What a convolution may say besides its shape
void set_option(Conv2d& conv, std::int64_t& pad, const std::string& key, const std::string& value,
                const FileLine& place) {
  if (key == "stride")
    conv.stride = number(value, key, 1, place);
  else if (key == "dilation")
    conv.dilation = number(value, key, 1, place);
  else if (key == "groups")
    conv.groups = number(value, key, 1, place);
  else
    pad = number(value, key, 0, place);
}

void set_padding(Conv2d& conv, std::int64_t pad) {
  const std::int64_t down = pad >= 0 ? pad : conv.dilation[0] * (conv.r - 1) / 2;
  const std::int64_t across = pad >= 0 ? pad : conv.dilation[1] * (conv.s - 1) / 2;
  conv.pad = {down, across, down, across};
}

struct Title {
  std::string name, text;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void finish(Case& c, const Title& title, const FileLine& place) {
  c.epilogue = title.name;
  c.text = title.text;
  replace_all(c.text, "{dtype}", to_string(c.conv.dtype_x));
  try {
    c.graph = parse(c.text);
    if (c.product) c.product->products = product_count(c.graph);
    ir::check_graph(c.graph, c.contraction());
  } catch (const UserError& error) {
    place.fail(fmt::format("case {} with epilogue '{}': {}", c.shape, title.name, error.what()));
  }
}

// So many planes of the image, and as many of the filter as it has rows; causal: all zeros are ahead of the first plane
struct Planes {
  std::int64_t count = 0;
  bool causal = false;
  /// Whether such a word says either.
  bool take(const std::string& word, const std::string& key, const std::string& value, const FileLine& place) {
    if (word == "causal") return causal = true;
    if (key == "planes") count = number(value, key, 1, place);
    return key == "planes";
  }
};

void set_volume(Case& c, const Planes& planes, const FileLine& place) {
  if (planes.count == 0 && planes.causal) place.fail("'causal' is of volumes; expected planes= beside it");
  if (planes.count == 0) return;
  if (c.dgrad || c.conv.layout == Layout::nchw)
    place.fail("planes= says a volume; expected neither dgrad nor layout=nchw beside it");
  const Conv2d& i = c.conv;
  const auto [top, left, bottom, right] = i.pad;
  const std::int64_t reach = i.dilation[0] * (i.r - 1), before = planes.causal ? reach : reach / 2;
  c.volume = Conv3d{.n = i.n, .d = planes.count, .h = i.h, .w = i.w, .c = i.c, .k = i.k, .t = i.r, .r = i.r, .s = i.s};
  c.volume->stride = {i.stride[0], i.stride[0], i.stride[1]};
  c.volume->before = {before, top, left}, c.volume->after = {reach - before, bottom, right};
  c.volume->dilation = {i.dilation[0], i.dilation[0], i.dilation[1]};
  c.volume->groups = i.groups, c.volume->dtype_x = i.dtype_x, c.volume->dtype_w = i.dtype_w;
  c.conv = plan::as_convolution(*c.volume).conv;
}

// What operands are, once all options are known
void set_operands(Case& c, DType dtype, std::int64_t pad) {
  if (c.product) {
    c.product->dtype_a = c.product->dtype_b = dtype;
    c.conv = plan::as_convolution(*c.product).conv;
  } else {
    c.conv.dtype_x = c.conv.dtype_w = dtype;
    set_padding(c.conv, pad);
  }
}

// SHAPE, options, and plan= with the rest of the line
Case parse_case(std::string_view text, const Title& title, const FileLine& place) {
  Case c;
  c.line = place.line;
  if (const auto plan = text.find(" plan="); plan != std::string_view::npos) {
    c.plan = trimmed(text.substr(plan + 6));
    text = text.substr(0, plan);
  }
  std::istringstream words{std::string(text)};
  std::string word;
  words >> c.shape;
  parse_shape(c, place);
  DType dtype = DType::bf16;
  std::int64_t pad = -1;
  Planes planes;
  while (words >> word) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "dtype")
      dtype = dtype_of(value, place);
    else if (key == "name")
      c.name = value;
    else if (!c.product && word == "dgrad")
      c.dgrad = true;
    else if (!c.product && key == "layout")
      c.conv.layout = layout_of(value, place);
    else if (!c.product && (key == "stride" || key == "dilation" || key == "pad" || key == "groups"))
      set_option(c.conv, pad, key, value, place);
    else if (c.product || !planes.take(word, key, value, place))
      place.fail(
          fmt::format("'{}' is unknown; expected dtype=, name=, of a convolution stride=, dilation=, pad=, groups=, "
                      "layout=, planes=, causal, dgrad, or plan= at the end",
                      word));
  }
  set_operands(c, dtype, pad);
  set_volume(c, planes, place);
  finish(c, title, place);
  return c;
}

// What distinguishes a case in its suite
void name_cases(Suite& suite, const std::string& where) {
  std::set<std::string> titles, names;
  for (const Case& c : suite.cases) titles.insert(c.epilogue);
  for (Case& c : suite.cases) {
    if (c.name.empty()) c.name = titles.size() > 1 ? c.shape + " " + c.epilogue : c.shape;
    if (!names.insert(c.name).second)
      FileLine{where, c.line}.fail(fmt::format("a second case is called '{}'; give it another name by name=", c.name));
  }
}

/// What the lines of a file have said so far.
class SuiteReader {
 public:
  // A line that is not indented
  void take(const std::string& line, const FileLine& place) {
    const std::size_t blank = line.find(' ');
    const std::string key = line.substr(0, blank), rest = blank == std::string::npos ? "" : trimmed(line.substr(blank));
    if (rest.empty())
      place.fail(
          fmt::format("'{}' needs more: expected suite NAME, epilogue TITLE, rival NAME PLAN or case SHAPE", key));
    block_ = key == "epilogue" ? Block::epilogue : key == "rival" ? Block::rival : Block::none;
    if (key == "suite")
      suite_.name = rest;
    else if (key == "epilogue")
      title_ = Title{rest, ""};
    else if (key == "rival")
      begin_rival(rest, place);
    else if (key == "case")
      add_case(rest, place);
    else
      place.fail(fmt::format("'{}' is unknown; expected suite, epilogue, rival or case", key));
  }

  // An indented line: of an epilogue's text, or one of a rival's plans
  void continue_block(const std::string& line, const FileLine& place) {
    if (block_ == Block::epilogue)
      title_->text += line + "\n";
    else if (block_ == Block::rival)
      rivals_.back().choices.push_back(line);
    else
      place.fail("an indented line belongs to an epilogue or a rival, and none begins here");
  }

  Suite finish() { return std::move(suite_); }

 private:
  enum class Block { none, epilogue, rival };
  struct RivalLines {
    std::string name, base;
    std::vector<std::string> choices;
  };

  // One of the same name is replaced, for the cases that follow
  void begin_rival(const std::string& rest, const FileLine& place) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string::npos) place.fail(fmt::format("rival {} needs a plan, as plan= has it", rest));
    const std::string name = rest.substr(0, blank);
    std::erase_if(rivals_, [&](const RivalLines& r) { return r.name == name; });
    rivals_.push_back({name, trimmed(rest.substr(blank)), {}});
  }

  void add_case(const std::string& rest, const FileLine& place) {
    if (!title_) place.fail("a case needs an epilogue before it: epilogue TITLE, and its text on indented lines");
    Case& c = suite_.cases.emplace_back(parse_case(rest, *title_, place));
    for (const RivalLines& r : rivals_) {
      Rival& rival = c.rivals.emplace_back(Rival{r.name, {}});
      if (r.choices.empty()) rival.plans.push_back(r.base);
      for (const std::string& choice : r.choices) rival.plans.push_back(r.base + " " + choice);
    }
  }

  Suite suite_;
  std::optional<Title> title_;
  std::vector<RivalLines> rivals_;
  Block block_ = Block::none;
};

}  // namespace

Suite parse_suite(std::string_view text, const std::string& where) {
  SuiteReader reader;
  int number_of_line = 0;
  for (const std::string_view line : split(text, '\n')) {
    const FileLine place{where, ++number_of_line};
    const std::string bare = trimmed(line.substr(0, line.find('#')));
    if (bare.empty()) continue;
    const bool indented = line.front() == ' ' || line.front() == '\t';
    indented ? reader.continue_block(bare, place) : reader.take(bare, place);
  }
  Suite suite = reader.finish();
  if (suite.name.empty()) throw UserError(where + ": expected a line 'suite NAME', which names its results");
  if (suite.cases.empty()) throw UserError(where + ": it has no cases; expected lines 'case N,H,W,C,K,R'");
  name_cases(suite, where);
  return suite;
}

Suite read_suite(const std::filesystem::path& file) {
  const auto text = support::read_file(file);
  if (!text) throw UserError(fmt::format("cannot read the cases in {}; is the path right?", file.string()));
  return parse_suite(*text, file.string());
}

void keep_only(Suite& suite, const std::string& text) {
  std::string names;
  for (const Case& c : suite.cases) names += "\n  " + c.name;
  std::erase_if(suite.cases, [&](const Case& c) { return c.name.find(text) == std::string::npos; });
  if (suite.cases.empty())
    throw UserError(fmt::format("--only '{}' fits no case of suite {}; there are:{}", text, suite.name, names));
}

bool Case::is_bare() const {
  return graph.stores.size() == 1 && graph.stores[0].form == StoreForm::whole &&
         graph[graph.stores[0].value].op == Op::acc && graph.effects.empty();
}

Contraction Case::bare_contraction() const {
  if (!product || product->products == 1) return contraction();
  Gemm wide = *product;
  wide.n *= wide.products, wide.products = 1;
  return wide;
}

double Case::flop() const { return unisono::flop(contraction()); }

double Case::bytes() const {
  const Contraction c = contraction();
  const auto in = [](const std::vector<std::int64_t>& extents, DType dtype) {
    return static_cast<double>(element_count(extents)) * static_cast<double>(size_of(dtype));
  };
  double sum = in(shape_a(c), conv.dtype_x) + product_count(c) * in(shape_b(c), conv.dtype_w);
  for (const OperandTensor& x : operand_tensors(graph, c)) sum += in(x.shape, x.dtype);
  for (const Store& s : graph.stores) sum += in(reference::shape_of(graph, s, c), s.dtype);
  return sum;
}

Graph bare_graph(DType dtype) { return parse(fmt::format("store acc as y : {}", to_string(dtype))); }

int rotating_sets(double bytes_of_a_set) {
  return static_cast<int>(std::clamp(std::ceil(200e6 / bytes_of_a_set), 2.0, 128.0));
}

DType storage_of(const Node& operand) { return operand.attr.storage.value_or(DType::f32); }

std::vector<OperandTensor> operand_tensors(const Graph& graph, const Contraction& contraction) {
  std::vector<OperandTensor> found;
  std::set<std::string> seen;
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand && !(x.axes == axes::scalar) && seen.insert(x.attr.name).second)
      found.push_back({x.attr.name, x.axes, storage_of(x), reference::shape_of(x.axes, contraction)});
  return found;
}

}  // namespace unisono::bench
