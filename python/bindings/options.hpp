#pragma once
/// Keyword arguments as the fields of an options struct.

#include <nanobind/stl/set.h>

#include <functional>
#include <map>
#include <string>
#include <type_traits>

#include "tensors.hpp"

namespace unisono::python {

/// How an option's value becomes a field: false for a value that is not what is expected.
template <class Options>
struct OptionField {
  std::function<bool(Options&, nb::handle)> set;
  const char* expected;
};
template <class Options>
using OptionFields = std::map<std::string, OptionField<Options>>;

template <class T>
constexpr const char* expected_of() {
  if constexpr (std::is_same_v<T, bool>) return "True or False";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  if constexpr (std::is_enum_v<T>) return "a member of its enumeration";
  if constexpr (std::is_same_v<T, std::string>) return "a text";
  if constexpr (std::is_same_v<T, std::set<std::string>>) return "a set of names";
  return "a dictionary of names and dtypes";
}

template <class Options, class T>
OptionField<Options> field(T Options::*member) {
  return {[member](Options& options, nb::handle value) { return nb::try_cast(value, options.*member, true); },
          expected_of<T>()};
}

/// Throws UserError, which names the call, for an option that there is not and for a value that is not what is
/// expected.
template <class Options>
Options read_options(const std::string& call, const OptionFields<Options>& fields, const nb::kwargs& keywords) {
  Options options;
  for (const auto& [key, value] : keywords) {
    const auto name = nb::cast<std::string>(key);
    const auto found = fields.find(name);
    if (found == fields.end()) {
      std::string all;
      for (const auto& [known, field] : fields) all += (all.empty() ? "" : ", ") + known;
      throw UserError(call + ": unknown option '" + name + "'; expected " + all);
    }
    if (!found->second.set(options, value))
      throw UserError(call + ": option '" + name + "' is " + nb::cast<std::string>(nb::repr(value)) + "; expected " +
                      found->second.expected);
  }
  return options;
}

/// The keyword arguments of compile() and explain().
CompileOptions compile_options_of(const nb::kwargs& keywords);

}  // namespace unisono::python
