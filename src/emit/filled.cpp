#include "emit/filled.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "codegen/member_names.hpp"
#include "families/interface/family.hpp"
#include "runtime/cuda/arguments.hpp"
#include "tuner/operands.hpp"
#include "unisono/error.hpp"

namespace unisono::emit {
namespace {

// Addresses that no memory has and nothing else in a parameter looks like
constexpr std::uint64_t inputs_at = 0x5a5a'0000'0000'0000, outputs_at = 0x5a5b'0000'0000'0000,
                        right1_at = 0x5a5c'0000'0000'0000, pointers_at = 0x5a5d'0000'0000'0000,
                        workspace_at = 0x5a5e'0000'0000'0000;
bool is_made_up(std::uint64_t word) { return word >> 48 >= 0x5a5a && word >> 48 <= 0x5a5e; }

std::byte* address(std::uint64_t at) { return reinterpret_cast<std::byte*>(at); }

std::uint64_t word_at(const families::ParameterBytes& p, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, p.bytes.data() + at, sizeof word);
  return word;
}

class Filling {
 public:
  explicit Filling(const lower::Lowered& lowered) : l_(lowered), plan_(lowered.plan()) {}
  Filled run();

 private:
  cuda::BoundArguments bind();
  void take_arguments(const std::vector<cuda::Slot>& slots, const cuda::Signature& signature);
  void take_sites(families::Parameter& parameter);
  void take_map(const families::Parameter& parameter, const Filled::Place& place);
  void take_workspace(families::ParameterBytes& bytes);
  void take_words(const families::ParameterBytes& bytes);

  const lower::Lowered& l_;
  const families::Plan& plan_;
  Filled filled_;
  codegen::MemberNames members_{{"workspace", "workspace_bytes"}};
  std::vector<std::size_t> argument_of_;  // by slot
};

void Filling::take_arguments(const std::vector<cuda::Slot>& slots, const cuda::Signature& signature) {
  argument_of_.resize(slots.size());
  for (const bool tensors : {true, false})
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const cuda::Slot& s = slots[i];
      if (s.is_tensor() != tensors) continue;
      argument_of_[i] = filled_.arguments.size();
      const bool has_default = s.kind == cuda::Slot::Kind::operand && signature.defaults.contains(s.name);
      filled_.arguments.push_back(
          {.name = members_.add(s.name, s.is_written() ? "_output" : "_operand"),
           .what = s.what,
           .dtype = s.view.dtype,
           .shape = s.view.shape,
           .alignment = s.alignment,
           .is_factor = s.kind == cuda::Slot::Kind::factor,
           .is_written = s.is_written(),
           .is_captured = std::ranges::find(signature.pointers, s.name) != signature.pointers.end(),
           .is_optional = has_default && !s.view.shape.empty(),
           .bound = s.name});
    }
}

cuda::BoundArguments Filling::bind() {
  const lower::Problem& p = l_.problem;
  const cuda::Signature signature = cuda::signature(p.contraction, p.graph, l_.epilogue(), plan_, l_.kernel, true);
  Arguments arguments = tuner::arguments_at(p, address(inputs_at), address(outputs_at));
  for (auto& [name, number] : arguments.scalars) number = 1;  // which every type has
  std::uint64_t next = pointers_at;
  if (product_count(p.contraction) == 2) {
    arguments.right1 = arguments.b(p.contraction);
    arguments.right1.data = address(right1_at);
  }
  for (const std::string& name : signature.pointers) arguments.pointers[name] = address(next += 256);
  cuda::BoundArguments bound = cuda::bind_arguments(signature, arguments);
  take_arguments(bound.slots, signature);
  return bound;
}

void Filling::take_map(const families::Parameter& parameter, const Filled::Place& place) {
  const auto map = std::ranges::find(parameter.maps, place.at, &families::Parameter::Map::offset);
  if (map == parameter.maps.end()) throw InternalError("a tensor map that nothing describes");
  filled_.maps.push_back({place, map->shape, map->element});
}

// What a slot gives, which the parameter then does not hold
void Filling::take_sites(families::Parameter& parameter) {
  for (const families::Site& site : parameter.sites) {
    const std::size_t argument = argument_of_.at(site.slot);
    const Filled::Place place{argument, site.offset, site.ahead};
    if (site.kind == families::Site::Kind::tensor_map) {
      take_map(parameter, place);
      continue;
    }
    (filled_.arguments[argument].is_tensor() ? filled_.addresses : filled_.numbers).push_back(place);
    std::memset(parameter.bytes.bytes.data() + site.offset, 0, sizeof(std::uint64_t));
  }
  for (const families::Site& site : plan_.family->workspace_maps(plan_))
    take_map(parameter, {filled_.tensors(), site.offset, site.ahead});
  if (filled_.maps.size() != parameter.maps.size()) throw InternalError("a tensor map of no argument");
}

// Which words a workspace's address is in: those that a parameter has of made-up memory alone
void Filling::take_workspace(families::ParameterBytes& bytes) {
  const std::uint64_t base = plan_.workspace_bytes == 0 ? 0 : workspace_at;
  plan_.family->place_workspace(bytes, plan_, l_.epilogue(), base);
  if (base == 0) return;
  for (std::size_t at = 0; at < filled_.bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(bytes, at);
    if (word < base || word > base + plan_.workspace_bytes) continue;
    filled_.addresses.push_back({filled_.tensors(), at, word - base});
    std::memset(bytes.bytes.data() + at, 0, sizeof word);
  }
}

void Filling::take_words(const families::ParameterBytes& bytes) {
  for (std::size_t at = 0; at < filled_.bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(bytes, at);
    if (is_made_up(word)) throw InternalError(fmt::format("an address at byte {} that no argument gives", at));
    if (word != 0) filled_.words.push_back({at, word});
  }
}

Filled Filling::run() {
  const families::Family& family = *plan_.family;
  const families::Launched launched{l_.problem.task, l_.epilogue(), l_.kernel};
  filled_.bytes = family.parameter_bytes(plan_, l_.kernel).value();
  cuda::BoundArguments bound = bind();
  families::Parameter parameter{.bytes = family.constants(plan_, launched), .maps = {}, .sites = {}};
  const families::Address filter = bound.b, filter1 = bound.b1;
  family.fill(parameter, plan_, launched, cuda::tensors(bound, filter, filter1));
  take_sites(parameter);
  take_workspace(parameter.bytes);
  take_words(parameter.bytes);
  return std::move(filled_);
}

}  // namespace

std::size_t Filled::tensors() const {
  return static_cast<std::size_t>(std::ranges::count_if(arguments, &Argument::is_tensor));
}

Filled filled(const lower::Lowered& lowered) { return Filling(lowered).run(); }

}  // namespace unisono::emit
