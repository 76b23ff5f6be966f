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

void ChainWriter::store(const Places& places, const Values& all) {
  const std::size_t result = p_.inputs;
  const StridedTensor& x = tensors_[result];
  const std::string_view tag = tag_of(x.type.memory);
  const Affine first = address_of(x, places[0]);
  const bool is_dense = x.strides.empty() || x.strides[static_cast<std::size_t>(shares_.axis)] == 1;
  if (is_dense && shares_.chunk > 1 && first.constant % shares_.chunk == 0 && begins_words(x, first, shares_.chunk)) {
    const std::string chunk = fresh();
    line(fmt::format("Chunk<{}, {}> {};", shares_.chunk, tag, chunk));
    for (std::size_t k = 0; k < all.size(); ++k) line(fmt::format("{}.of[{}] = {};", chunk, k, all[k].name));
    line(fmt::format("store_word<{}, {}>(p.tensors[{}], {}, {});", shares_.chunk, tag, result, indices_.text(first),
                     chunk));
    return;
  }
  for (std::size_t k = 0; k < all.size(); ++k)
    line(fmt::format("store<{}>(p.tensors[{}], {}, {});", tag, result, indices_.text(address_of(x, places[k])),
                     all[k].name));
}

KernelText ChainWriter::text() {
  const std::size_t tensors = p_.inputs + 1, result = p_.nodes.size() - 1;
  if (types_[result] != tensors_[p_.inputs].type.value) throw ChainRefusal{"its result is of another type"};
  Place place(p_.nodes[result].shape.size());
  Affine left = indices_.variable(fmt::format("n / {}", shares_.team), shares_.lines);
  for (std::size_t i = shares_.outer.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(shares_.outer[i]);
    std::tie(left, place[axis]) = indices_.divided(left, p_.nodes[result].shape[axis]);
  }
  if (place.empty()) place.emplace_back();
  for (std::int64_t time = 0; time < shares_.times; ++time) {
    Places places = places_of(static_cast<std::size_t>(time), place, shares_.axis);
    if (p_.nodes[result].shape.empty()) places = {{}};
    const bool is_partial = parts(static_cast<std::size_t>(time)) < shares_.team;
    if (is_partial) open(fmt::format("if (n % {} < {}) {{", shares_.team, parts(static_cast<std::size_t>(time))));
    store(places, values(result, places));
    if (is_partial) close("}");
  }
  std::string source = fmt::format(
      "// A chain of operators on tensors.\n#include <unisono/tensor/chain.cuh>\n\nnamespace unisono::tensor {{\n\n"
      "struct Program {{\n    static constexpr int kTeam = {};\n"
      "    static UNISONO_DEVICE void run(const ChainParams<{}>& p, int n) {{\n{}{}    }}\n}};\n\n"
      "}}  // namespace unisono::tensor\n",
      shares_.team, tensors, indices_.definitions("        "), scopes_[0].text);
  source += kernel_text("unisono_chain", fmt::format("ChainParams<{}>", tensors), "chain<Program>");
  return {std::move(source), "unisono_chain"};
}

}  // namespace unisono::tensors
