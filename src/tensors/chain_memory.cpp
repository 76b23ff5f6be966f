/// What chains of operators read and write: elements in words, as far as they lie so.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tensors/chain_text.hpp"
#include "tensors/text.hpp"

namespace unisono::tensors {

namespace {

constexpr int bytes_of_word = 16;

Affine address_of(const StridedTensor& x, const Place& place) {
  Affine at;
  for (std::size_t i = 0; i < place.size(); ++i) at = at + place[i] * x.strides[i];
  return at;
}

// Whether words of so many elements begin at all these places
bool begins_words(const StridedTensor& x, const Affine& terms, std::int64_t width) {
  const auto bytes = width * static_cast<std::int64_t>(size_of(x.type.memory));
  return static_cast<std::int64_t>(x.alignment) % bytes == 0 && start_of(x) % bytes == 0 &&
         std::all_of(terms.terms.begin(), terms.terms.end(), [&](const auto& t) { return t.second % width == 0; });
}

}  // namespace

// Half of its elements are wanted at least, and the others lie in the tensor's memory, too
bool ChainWriter::is_word(std::size_t tensor, const Affine& terms, int width, std::int64_t word,
                          const std::vector<std::int64_t>& wanted) const {
  const StridedTensor& x = tensors_[tensor];
  if (!begins_words(x, terms, width)) return false;
  const auto count =
      std::count_if(wanted.begin(), wanted.end(), [&](std::int64_t at) { return floor_divided(at, width) == word; });
  if (count == width) return true;
  std::int64_t first = 0, last = 0;
  for (std::size_t i = 0; i < x.shape.size(); ++i) (x.strides[i] < 0 ? first : last) += (x.shape[i] - 1) * x.strides[i];
  const AffineRange range = indices_.range(terms + word * width);
  return 2 * count >= width && range.least >= first && range.most + width - 1 <= last;
}

// The element at terms + at; `wanted` are all that are read beside it
std::string ChainWriter::element(std::size_t tensor, const Affine& terms, std::int64_t at,
                                 const std::vector<std::int64_t>& wanted) {
  const std::string_view tag = tag_of(tensors_[tensor].type.memory);
  const int widest = bytes_of_word / static_cast<int>(size_of(tensors_[tensor].type.memory));
  const auto name_in = [](const std::string& word, int width, std::int64_t k) {
    return width == 1 ? word : fmt::format("{}.of[{}]", word, k);
  };
  for (int width = widest; width >= 1; width /= 2)
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const std::int64_t word = floor_divided(at, width);
      const auto known = scope->words.find({tensor, terms, width, word});
      if (known != scope->words.end()) return name_in(known->second, width, at - word * width);
    }
  int width = widest;
  while (width > 1 && !is_word(tensor, terms, width, floor_divided(at, width), wanted)) width /= 2;
  const std::int64_t word = floor_divided(at, width);
  const std::string name = fresh(), place = indices_.text(terms + word * width);
  if (width == 1)
    line(fmt::format("const auto {} = load<{}>(p.tensors[{}], {});", name, tag, tensor, place));
  else
    line(fmt::format("const auto {} = load_word<{}, {}>(p.tensors[{}], {});", name, width, tag, tensor, place));
  scopes_.back().words.emplace(std::tuple{tensor, terms, width, word}, name);
  return name_in(name, width, at - word * width);
}

ChainWriter::Values ChainWriter::loaded(std::size_t tensor, const Places& places) {
  std::map<Affine, std::vector<std::int64_t>> wanted;
  std::vector<Affine> addresses;
  for (const Place& place : places) {
    addresses.push_back(indices_.resolved(address_of(tensors_[tensor], place)));
    auto& list = wanted[Affine{0, addresses.back().terms}];
    if (std::find(list.begin(), list.end(), addresses.back().constant) == list.end())
      list.push_back(addresses.back().constant);
  }
  Values all;
  for (const Affine& at : addresses) {
    const Affine terms{0, at.terms};
    all.push_back({element(tensor, terms, at.constant, wanted.at(terms)), tensors_[tensor].type.value});
  }
  return all;
}

// Where another result has the element that lies in memory as the first one's does at this place
Place ChainWriter::place_in(std::size_t result, const Place& place) {
  const StridedTensor &first = tensors_[p_.inputs], &x = tensors_[p_.inputs + result];
  const std::vector<int> from = memory_order(first), order = memory_order(x);
  if (first.shape == x.shape && from == order) return place;
  Affine number;
  for (const int axis : from)
    number = number * first.shape[static_cast<std::size_t>(axis)] + place[static_cast<std::size_t>(axis)];
  Place to(x.shape.size());
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis)
    std::tie(number, to[static_cast<std::size_t>(*axis)]) =
        indices_.divided(number, x.shape[static_cast<std::size_t>(*axis)]);
  return to;
}

// The elements of a result that stand at these places of the first one
void ChainWriter::store(std::size_t result, const Places& places) {
  const std::size_t number = p_.inputs + result;
  const StridedTensor& x = tensors_[number];
  Places own;
  std::vector<Affine> at;
  for (const Place& place : places) {
    own.push_back(place_in(result, place));
    at.push_back(address_of(x, own.back()));
  }
  const Values all = values(p_.results[result], own);
  const std::string_view tag = tag_of(x.type.memory);
  const auto count = static_cast<std::int64_t>(at.size());
  bool is_word = count > 1 && at[0].constant % count == 0 && begins_words(x, at[0], count);
  for (std::size_t k = 0; k < at.size(); ++k) is_word = is_word && at[k] == at[0] + static_cast<std::int64_t>(k);
  if (!is_word) {
    for (std::size_t k = 0; k < all.size(); ++k)
      line(fmt::format("store<{}>(p.tensors[{}], {}, {});", tag, number, indices_.text(at[k]), all[k].name));
    return;
  }
  const std::string chunk = fresh();
  line(fmt::format("Chunk<{}, {}> {};", count, tag, chunk));
  for (std::size_t k = 0; k < all.size(); ++k) line(fmt::format("{}.of[{}] = {};", chunk, k, all[k].name));
  line(fmt::format("store_word<{}, {}>(p.tensors[{}], {}, {});", count, tag, number, indices_.text(at[0]), chunk));
}

KernelText ChainWriter::text() {
  const std::size_t tensors = p_.inputs + p_.results.size();
  for (std::size_t i = 0; i < p_.results.size(); ++i)
    if (types_[p_.results[i]] != tensors_[p_.inputs + i].type.value) throw ChainRefusal{"its result has another type"};
  const Extents& shape = p_.nodes[p_.results[0]].shape;
  Place place(shape.size());
  Affine left = indices_.variable(fmt::format("n / {}", shares_.team), shares_.lines);
  for (std::size_t i = shares_.outer.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(shares_.outer[i]);
    std::tie(left, place[axis]) = indices_.divided(left, shape[axis]);
  }
  for (std::size_t time = 0; time < static_cast<std::size_t>(shares_.times); ++time) {
    const Places places = shape.empty() ? Places{{}} : places_of(time, place, shares_.axis);
    const bool is_partial = parts(time) < shares_.team;
    if (is_partial) open(fmt::format("if (n % {} < {}) {{", shares_.team, parts(time)));
    for (std::size_t i = 0; i < p_.results.size(); ++i) store(i, places);
    if (is_partial) close("}");
  }
  const bool names_faults = scopes_[0].text.find("faults") != std::string::npos;  // functions that take any type
  std::string source = fmt::format(
      "// A chain of operators on tensors.\n#include <unisono/tensor/chain.cuh>\n\nnamespace unisono::tensor {{\n\n"
      "struct Program {{\n    static constexpr int kTeam = {};\n"
      "    static UNISONO_DEVICE void run(const ChainParams<{}>& p, int n) {{\n{}{}{}    }}\n}};\n\n"
      "}}  // namespace unisono::tensor\n",
      shares_.team, tensors, names_faults ? "        const FaultReport faults{};  // nothing fails\n" : "",
      indices_.definitions("        "), scopes_[0].text);
  source += kernel_text("unisono_chain", fmt::format("ChainParams<{}>", tensors), "chain<Program>");
  return {std::move(source), "unisono_chain"};
}

}  // namespace unisono::tensors
