// How results [m,n] are stored from registers.
#include <fmt/format.h>

#include <string>

#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"

namespace unisono::codegen {

namespace {

// The functions that store a value of an element, and those of two neighbours
struct StoreNames {
  std::string pair, single;
};

StoreNames store_names(DType stored) {
  if (stored == DType::i32) return {"store_pair_of_ints", "store_int"};
  if (stored == DType::boolean) return {"store_pair_of_bools", "store_bool"};
  return {fmt::format("store_pair<{}>", element_name(stored)), fmt::format("store_element<{}>", element_name(stored))};
}

}  // namespace

// A result of two neighbours, x and y, or of one element, x
std::string VisitorWriter::put_text(std::size_t o, bool pair) const {
  const std::size_t i = e_.outputs[o].store;
  const StoreNames store = store_names(g_.stores[i].dtype);
  const std::string memory = names_.of_store(i);
  if (g_.stores[i].strided) {
    const std::string first = fmt::format(
        "            const Place place = {0};\n            const u64 to = place.offset(x.m, x.channel);\n"
        "            {1}(p.{2}, to, x.r{3});\n",
        place_of_store(i), store.single, memory, o);
    const std::string second =
        fmt::format("            {0}(p.{1}, to + place.column, y.r{2});\n", store.single, memory, o);
    return "        {\n" + first + (pair ? second : "") + "        }\n";
  }
  return pair ? fmt::format("        {0}(p.{1}, offset, x.r{2}, y.r{2});\n", store.pair, memory, o)
              : fmt::format("        {0}(p.{1}, offset, x.r{2});\n", store.single, memory, o);
}

}  // namespace unisono::codegen
