/// Einsum, and the windows of convolutions and pools.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "reference/onnx/windows.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {

Windows windows_of(const Call& call, const Extents64& extents, const Extents64& kernel) {
  const std::size_t axes = extents.size();
  Windows w{kernel, call.list("strides").value_or(Extents64(axes, 1)),
            call.list("dilations").value_or(Extents64(axes, 1)), Extents64(axes, 0), Extents64(axes, 0)};
  const Extents64 pads = call.list("pads").value_or(Extents64(2 * axes, 0));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  for (std::size_t d = 0; d < axes; ++d) {
    if (automatic == "NOTSET") w.before[d] = pads.at(d), w.after[d] = pads.at(d + axes);
    if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") continue;
    const std::int64_t outputs = (extents[d] + w.stride[d] - 1) / w.stride[d];
    const std::int64_t total =
        std::max<std::int64_t>(0, (outputs - 1) * w.stride[d] + (kernel[d] - 1) * w.dilation[d] + 1 - extents[d]);
    w.before[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.after[d] = total - w.before[d];
  }
  return w;
}

void throw_unsupported_axes(const Call& call) {
  throw Unsupported("no definition of more than three spatial axes; an input has rank " +
                    std::to_string(call.in(0).shape.size()));
}

namespace {

// Letters of a term; an ellipsis becomes one sign for each axis that it stands for, aligned at its end
std::u32string letters(const std::string& term, std::size_t rank) {
  std::u32string all;
  std::size_t named = 0;
  for (const char c : term) named += std::isalpha(static_cast<unsigned char>(c)) != 0 ? 1 : 0;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      for (std::size_t k = rank - named; k-- > 0;) all += static_cast<char32_t>(0x1000 + k);
      i += 2;
    } else if (term[i] != ' ') {
      all += static_cast<char32_t>(static_cast<unsigned char>(term[i]));
    }
  }
  return all;
}

struct Equation {
  std::vector<std::u32string> inputs;
  std::u32string output;
};

Equation parsed(const Call& call) {
  std::string text = call.text("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation e;
  std::size_t widest = 0;  // axes of an ellipsis
  for (std::size_t i = 0, begin = 0; i < call.inputs(); ++i) {
    const std::size_t comma = std::min(left.find(',', begin), left.size());
    const std::string term = left.substr(begin, comma - begin);
    begin = comma + 1;
    e.inputs.push_back(letters(term, call.in(i).shape.size()));
    std::size_t named = 0;
    for (const char c : term) named += c != '.' ? 1 : 0;
    if (term.find('.') != std::string::npos) widest = std::max(widest, call.in(i).shape.size() - named);
  }
  if (arrow != std::string::npos) {
    const std::string right = text.substr(arrow + 2);
    std::size_t named = 0;
    for (const char c : right) named += c != '.' ? 1 : 0;
    e.output = letters(right, named + widest);
    return e;
  }
  std::map<char32_t, int> counts;  // without an arrow: the ellipsis, then letters that occur once, sorted
  for (const auto& term : e.inputs)
    for (const char32_t c : term) ++counts[c];
  for (std::size_t k = widest; k-- > 0;) e.output += static_cast<char32_t>(0x1000 + k);
  for (const auto& [c, n] : counts)
    if (c < 0x1000 && n == 1) e.output += c;
  return e;
}

}  // namespace

void define_einsum(Call& call) {
  const Equation e = parsed(call);
  std::map<char32_t, std::int64_t> extents;
  for (std::size_t i = 0; i < e.inputs.size(); ++i)
    for (std::size_t d = 0; d < e.inputs[i].size(); ++d) {
      std::int64_t& extent = extents.emplace(e.inputs[i][d], 1).first->second;
      extent = extent == 1 ? call.in(i).shape.at(d) : extent;
    }
  std::u32string all = e.output;  // the output's, then those that are summed
  for (const auto& [c, extent] : extents)
    if (all.find(c) == std::u32string::npos) all += c;
  Extents64 shape, summed;
  for (std::size_t i = 0; i < all.size(); ++i) (i < e.output.size() ? shape : summed).push_back(extents.at(all[i]));
  const double count = std::sqrt(static_cast<double>(element_count(summed)));
  Tensor64 y = empty_tensor(shape);
  y.dtype = call.in(0).dtype;
  std::size_t to = 0;
  for_indices(shape, [&](const Extents64& outer) {
    double sum = 0, sizes = 0;
    for_indices(summed, [&](const Extents64& inner) {
      double term = 1;
      for (std::size_t i = 0; i < e.inputs.size(); ++i) {
        Extents64 at;
        for (std::size_t d = 0; d < e.inputs[i].size(); ++d) {
          const std::size_t which = all.find(e.inputs[i][d]);
          const std::int64_t index = which < outer.size() ? outer[which] : inner[which - outer.size()];
          at.push_back(call.in(i).shape[d] == 1 ? 0 : index);
        }
        term *= call.in(i).value[place(call.in(i).shape, at)];
      }
      sum += term, sizes += std::abs(term);
    });
    const double u = roundoff(y.dtype) * (count + static_cast<double>(e.inputs.size()));
    y.value[to] = sum;
    y.bound[to++] = bound_within(u * sizes, sum, sizes, y.dtype);
  });
  call.result(std::move(y));
}

}  // namespace unisono::float64
